"""Spherical k-means."""

from __future__ import annotations

import pytest
import torch
from sklearn.cluster import KMeans
from torch.nn import functional as F

from graphgym_srnc.own.discover.clusters import kmeans
from graphgym_srnc.train.metrics import clustering_scores

Y = torch.arange(4).repeat_interleave(50)
RNG = torch.Generator().manual_seed(0)
X = (6 * torch.randn(4, 8, generator=RNG))[Y] + torch.randn(200, 8, generator=RNG)
"""Points of four clusters far from each other."""


def test_kmeans_finds_the_clusters_of_scikit_learn_and_ignores_length():
    theirs = KMeans(4, n_init=10, random_state=0).fit(F.normalize(X, dim=1).numpy())
    ours = kmeans(X, 4)
    assert clustering_scores(ours, torch.from_numpy(theirs.labels_).long())["acc"] == 1
    scale = torch.rand(len(X), 1, generator=torch.Generator().manual_seed(0)) * 100 + 0.1
    assert torch.equal(kmeans(X * scale, 4), ours)
    assert torch.equal(kmeans(X, 9, seed=5), kmeans(X, 9, seed=5))


@pytest.mark.parametrize("num_clusters", [1, 2, 3, 6])
def test_points_that_coincide_leave_no_cluster_empty(num_clusters):
    x = torch.tensor([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 2)
    assert torch.bincount(kmeans(x, num_clusters), minlength=num_clusters).min() > 0

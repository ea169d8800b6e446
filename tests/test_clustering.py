"""K-means with labels."""

from __future__ import annotations

import pytest
import torch
from sklearn.cluster import KMeans

from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import constrained_kmeans
from graphgym_srnc.train.metrics import clustering_scores

Y = torch.arange(4).repeat_interleave(50)
RNG = torch.Generator().manual_seed(0)
X = (6 * torch.randn(4, 8, generator=RNG))[Y] + torch.randn(200, 8, generator=RNG)
"""Points of four clusters far from each other."""

NODES, LABEL = torch.tensor([0, 1, 50, 51, 199]), torch.tensor([0, 0, 1, 1, 1])
"""Labelled points; the last one lies in another cluster."""


def test_kmeans_without_labels_equals_scikit_learn():
    ours, theirs = constrained_kmeans(X, 4), KMeans(4, n_init=10, random_state=0).fit(X.numpy())
    squares = float(((X - ours.centroids[ours.cluster]) ** 2).sum())
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=1e-4)
    assert ours.inertia == pytest.approx(squares, rel=1e-4)
    assert clustering_scores(ours.cluster, torch.from_numpy(theirs.labels_).long())["acc"] == 1


def test_labelled_points_keep_their_cluster():
    kept = constrained_kmeans(X, 4, NODES, LABEL)
    assert torch.equal(kept.cluster[NODES], LABEL)
    assert (kept.cluster[:50] == 0).all() and (kept.cluster[50:100] == 1).all()
    seeded = constrained_kmeans(X, 4, NODES[:4], LABEL[:4], variant="seeded")
    assert torch.equal(seeded.cluster[:100], Y[:100])
    assert set(seeded.cluster[100:].tolist()) == {2, 3}
    moved = constrained_kmeans(X, 4, NODES, LABEL, variant="seeded")
    assert moved.cluster[199] != moved.cluster[50]


def test_kmeans_is_seeded_and_restarts_do_not_hurt():
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(3))
    known = torch.tensor([0, 1])
    first, second, once = (
        constrained_kmeans(x, 9, known, known, seed=5, restarts=n) for n in (10, 10, 1)
    )
    assert torch.equal(first.cluster, second.cluster) and len(first.cluster.unique()) == 9
    assert first.inertia == second.inertia <= once.inertia


def test_spherical_kmeans_ignores_length():
    scale = torch.rand(len(X), 1, generator=torch.Generator().manual_seed(0)) * 100 + 0.1
    plain, scaled = (constrained_kmeans(points, 4, spherical=True) for points in (X, X * scale))
    assert torch.equal(plain.cluster, scaled.cluster)
    assert torch.allclose(plain.centroids.norm(dim=1), torch.ones(4), atol=1e-5)


@pytest.mark.parametrize("num_clusters", [2, 3, 6])
def test_points_that_coincide_leave_no_cluster_empty(num_clusters):
    x = torch.tensor([[0.0, 0.0]] * 4 + [[1.0, 0.0]] * 2)
    result = constrained_kmeans(x, num_clusters, torch.tensor([0, 4]), torch.tensor([0, 1]))
    assert torch.bincount(result.cluster, minlength=num_clusters).min() > 0
    assert result.inertia == 0 and torch.isfinite(result.centroids).all()


def test_kmeans_refuses_bad_input():
    good = {"x": X, "num_clusters": 4, "nodes": NODES[:3], "label": LABEL[:3]}
    for key, *values in (
        ("num_clusters", 0, 1, 200),
        ("x", torch.full((4, 2), torch.nan), torch.zeros(0, 2), torch.zeros(5)),
        ("label", torch.tensor([0, 0, 2]), torch.tensor([-1, 0, 1]), torch.tensor([0, 1])),
        ("nodes", torch.tensor([0, 0, 1]), torch.tensor([0, 1, 200])),
        ("variant", "soft"),
        ("restarts", 0),
    ):
        for value in values:
            with pytest.raises(InputError, match=f"kmeans.{key}"):
                constrained_kmeans(**good | {key: value})

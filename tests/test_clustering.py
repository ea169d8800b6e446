"""K-means with labels."""

from __future__ import annotations

import pytest
import torch
from sklearn.cluster import KMeans

from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.kmeans import constrained_kmeans, split_unknown
from graphgym_srnc.train.metrics import clustering_scores


def blobs(seed: int = 0, size: int = 50, dim: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Four clusters far from each other."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(4).repeat_interleave(size)
    centres = 6 * torch.randn(4, dim, generator=generator)
    return centres[y] + torch.randn(len(y), dim, generator=generator), y


def test_kmeans_without_labels_equals_scikit_learn(seed=0):
    x, y = blobs(seed)
    ours = constrained_kmeans(x, 4, seed=seed)
    theirs = KMeans(4, n_init=10, random_state=seed).fit(x.numpy())
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=1e-4)
    assert clustering_scores(ours.cluster, torch.from_numpy(theirs.labels_).long())["acc"] == 1
    assert ours.inertia == pytest.approx(
        float(((x - ours.centroids[ours.cluster]) ** 2).sum()), rel=1e-4
    )


def test_labelled_points_keep_their_cluster():
    x, y = blobs()
    nodes = torch.tensor([0, 1, 50, 51, 199])
    label = torch.tensor([0, 0, 1, 1, 1])  # the last one lies in another blob
    kept = constrained_kmeans(x, 4, nodes, label)
    assert torch.equal(kept.cluster[nodes], label)
    assert (kept.cluster[:50] == 0).all() and (kept.cluster[50:100] == 1).all()
    seeded = constrained_kmeans(x, 4, nodes[:4], label[:4], variant="seeded")
    assert torch.equal(seeded.cluster[:100], y[:100])
    assert set(seeded.cluster[100:].tolist()) == {2, 3}
    moved = constrained_kmeans(x, 4, nodes, label, variant="seeded")
    assert moved.cluster[199] != moved.cluster[50]


def test_kmeans_is_seeded_and_restarts_do_not_hurt():
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(3))
    first, second = (
        constrained_kmeans(x, 9, torch.tensor([0, 1]), torch.tensor([0, 1]), seed=5)
        for _ in range(2)
    )
    assert torch.equal(first.cluster, second.cluster) and first.inertia == second.inertia
    assert (
        first.inertia
        <= constrained_kmeans(
            x, 9, torch.tensor([0, 1]), torch.tensor([0, 1]), seed=5, restarts=1
        ).inertia
    )
    assert len(first.cluster.unique()) == 9


def test_spherical_kmeans_ignores_length():
    x, _ = blobs(1)
    scale = torch.rand(len(x), 1, generator=torch.Generator().manual_seed(0)) * 100 + 0.1
    plain, scaled = (constrained_kmeans(points, 4, spherical=True) for points in (x, x * scale))
    assert torch.equal(plain.cluster, scaled.cluster)
    assert torch.allclose(plain.centroids.norm(dim=1), torch.ones(4), atol=1e-5)


@pytest.mark.parametrize("num_clusters", [2, 3, 5, 6])
def test_points_that_coincide_leave_no_cluster_empty(num_clusters):
    x = torch.tensor([[0.0, 0.0]] * 4 + [[1.0, 0.0]] * 2)
    result = constrained_kmeans(x, num_clusters, torch.tensor([0, 4]), torch.tensor([0, 1]))
    assert torch.bincount(result.cluster, minlength=num_clusters).min() > 0
    assert result.inertia == 0 and torch.isfinite(result.centroids).all()


@pytest.mark.parametrize(
    "key, changes",
    [
        ("num_clusters", {"num_clusters": 1}),
        ("num_clusters", {"num_clusters": 201}),
        ("num_clusters", {"num_clusters": 0}),
        ("x", {"x": torch.full((4, 2), torch.nan)}),
        ("x", {"x": torch.zeros(0, 2)}),
        ("x", {"x": torch.zeros(5)}),
        ("label", {"label": torch.tensor([0, 0, 2])}),
        ("label", {"label": torch.tensor([-1, 0, 1])}),
        ("label", {"label": torch.tensor([0, 1])}),
        ("nodes", {"nodes": torch.tensor([0, 0, 1])}),
        ("nodes", {"nodes": torch.tensor([0, 1, 200])}),
        ("variant", {"variant": "soft"}),
        ("restarts", {"restarts": 0}),
    ],
)
def test_kmeans_refuses_bad_input(key, changes):
    options = {
        "x": blobs()[0],
        "num_clusters": 4,
        "nodes": torch.tensor([0, 1, 50]),
        "label": torch.tensor([0, 0, 1]),
    } | changes
    with pytest.raises(InputError, match=f"kmeans.{key}"):
        constrained_kmeans(**options)


def test_split_unknown_keeps_known_classes_and_splits_the_rest():
    x, y = blobs()
    named = torch.where(y < 2, y, 2)
    cluster = split_unknown(named, 2, x, 4)
    assert torch.equal(cluster[y < 2], named[y < 2]) and set(cluster[y >= 2].tolist()) == {2, 3}
    assert clustering_scores(cluster, y) == {"acc": 1.0, "nmi": 1.0}
    assert torch.equal(split_unknown(named, 2, x, 2), named)
    assert torch.equal(split_unknown(y, 4, x, 7), y)
    named[y >= 2], named[-1] = 0, 2
    assert torch.equal(split_unknown(named, 2, x, 7), named)

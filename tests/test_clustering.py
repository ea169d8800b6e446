"""Random walks, skip-gram, k-means with labels, and the embeddings that are made of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from torch_geometric.data import Data
from torch_geometric.utils import stochastic_blockmodel_graph

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.own.clustering import KINDS, constrained_kmeans, embed, split_unknown
from graphgym_srnc.own.clustering.skipgram import skip_gram
from graphgym_srnc.own.clustering.walks import random_walks
from graphgym_srnc.train.metrics import clustering_scores


def adjacency(edges: list[tuple[int, int]], num_nodes: int) -> sp.csr_array:
    row, column = np.array(edges + [(b, a) for a, b in edges]).T
    matrix = sp.csr_array(
        (np.ones(len(row), dtype=np.float32), (row, column)), shape=(num_nodes, num_nodes)
    )
    matrix.sort_indices()
    return matrix


def blobs(seed: int = 0, size: int = 50, dim: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Four clusters far from each other."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(4).repeat_interleave(size)
    centres = 6 * torch.randn(4, dim, generator=generator)
    return centres[y] + torch.randn(len(y), dim, generator=generator), y


# A triangle with a tail, and an isolated last node.
TAIL = adjacency([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)], 6)


@pytest.mark.parametrize("p, q", [(1, 1), (0.25, 4), (4, 0.25)])
def test_walks_follow_edges_and_isolated_nodes_stay(p, q):
    walks = random_walks(
        TAIL, np.tile(np.arange(6), 50), 12, p=p, q=q, rng=np.random.RandomState(0)
    )
    assert walks.shape == (300, 12) and (walks[:, 0] == np.tile(np.arange(6), 50)).all()
    dense = TAIL.toarray() + np.diag([0, 0, 0, 0, 0, 1])
    assert dense[walks[:, :-1], walks[:, 1:]].all()
    again = random_walks(
        TAIL, np.tile(np.arange(6), 50), 12, p=p, q=q, rng=np.random.RandomState(0)
    )
    assert np.array_equal(walks, again)


@pytest.mark.parametrize("p, q", [(1, 1), (0.25, 2), (4, 0.5)])
def test_second_order_probabilities(p, q):
    walks = random_walks(TAIL, np.full(60_000, 1), 3, p=p, q=q, rng=np.random.RandomState(1))
    # From 1 to 2: back to 1, to the common neighbour 0, or away to 3.
    after = walks[walks[:, 1] == 2, 2]
    weight = np.array([1, 1 / p, 1 / q])
    share = np.bincount(after, minlength=4)[[0, 1, 3]] / len(after)
    assert np.allclose(share, weight / weight.sum(), atol=0.015)


def test_walks_on_a_graph_without_edges_and_bad_values():
    empty = sp.csr_array((3, 3), dtype=np.float32)
    walks = random_walks(empty, np.arange(3), 4, p=2, rng=np.random.RandomState(0))
    assert (walks == np.arange(3)[:, None]).all()
    for changes in ({"length": 0}, {"p": 0}, {"q": -1}, {"q": float("nan")}, {"p": float("inf")}):
        with pytest.raises(InputError, match=f"walks.{next(iter(changes))}"):
            random_walks(
                TAIL, np.arange(3), **{"length": 4, "rng": np.random.RandomState(0)} | changes
            )


def test_skip_gram_draws_near_what_walks_join():
    cliques = adjacency(
        [(a + s, b + s) for s in (0, 6) for a in range(6) for b in range(a)] + [(0, 6)], 12
    )
    walks = random_walks(cliques, np.tile(np.arange(12), 40), 20, rng=np.random.RandomState(0))
    z = torch.nn.functional.normalize(skip_gram(walks, 13, dim=16, window=3), dim=1)
    likeness, side = z @ z.T, torch.arange(12) // 6
    same = (side[:, None] == side) & ~torch.eye(12, dtype=torch.bool)
    assert likeness[:12, :12][same].mean() > likeness[:12, :12][side[:, None] != side].mean() + 0.3
    assert z.shape == (13, 16) and torch.isfinite(z).all()
    assert torch.equal(
        z, torch.nn.functional.normalize(skip_gram(walks, 13, dim=16, window=3), dim=1)
    )
    for changes in ({"dim": 0}, {"window": 0}):
        with pytest.raises(InputError, match=f"skip_gram.{next(iter(changes))}"):
            skip_gram(walks, 13, **changes)
    with pytest.raises(InputError, match="skip_gram.walks"):
        skip_gram(walks[:, :1], 13)


@pytest.mark.parametrize("seed", range(4))
def test_kmeans_without_labels_equals_scikit_learn(seed):
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


@pytest.mark.parametrize("kind, share", [(kind, 1.0) for kind in KINDS] + [("dgi", 0.1)])
def test_embeddings_find_planted_blocks(kind, share):
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    y = torch.arange(3).repeat_interleave(40)
    edges = stochastic_blockmodel_graph([40] * 3, torch.full((3, 3), 0.01) + 0.3 * torch.eye(3))
    drawn = torch.rand(120, 30, generator=generator) < share
    x = drawn.float() * (torch.arange(30) % 3 == y[:, None])
    data, state = Data(x=x, edge_index=edges, y=y), torch.get_rng_state()
    z = embed(data, kind, 1, dim=16, hidden=16)
    assert z.shape == (120, 30 if kind == "features" else 16) and not z.requires_grad
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(z, embed(data, kind, 1, dim=16, hidden=16))
    nodes = torch.tensor([0, 1, 40, 41])
    found = constrained_kmeans(z, 3, nodes, y[nodes], spherical=True)
    assert clustering_scores(found.cluster, y)["acc"] > 0.9


def test_sparse_features_come_out_dense():
    x = torch.eye(20)[:, :18] * 2
    data = Data(x=x, edge_index=torch.tensor([[0], [1]]))
    assert torch.equal(embed(data, "features"), x / 2)
    assert torch.equal(embed(data, "features", features="none"), x)


def test_unknown_embedding():
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match="node2vec"):
        embed(data, "line")


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

"""Clusters of a graph: those of known classes, and those that may be new classes.

K-means splits the nodes that the model predicts as unknown. Then every node moves to the nearest
centre, of a new cluster or of the nodes of a known class. So a new cluster may contain nodes that
the model predicts as known; its share of unknown nodes shows how many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse, prepare
from graphgym_srnc.backbones.features import Mapped
from graphgym_srnc.core.options import Count, OneOf, checked
from graphgym_srnc.errors import InputError

TOPICS, STEPS, RESTART = 20, 10, 0.1
"""Width of :func:`topics`; steps and restart of its personalised PageRank."""


@dataclass(frozen=True, eq=False)
class Cluster:
    r"""A cluster and its figures.

    Args:
        number: 1, 2, ... for new clusters, the likeliest new class first; 0 for a known class.
        known_class: the known class that it belongs to, or None.
        nodes: its nodes, the most typical first, ``[n]``.
        newness: how likely it is a class of its own: :math:`\bar P_u (1 - \phi / 2)`, its mean
            probability of the unknown class less up to half of it for edges that leave it.
        p_unknown: mean probability of the unknown class, :math:`\bar P_u`.
        predicted_unknown: share of its nodes that the model predicts as unknown.
        modularity: contribution to the modularity of the clustering.
        conductance: see :func:`separation`, :math:`\phi`.
        silhouette: mean simplified silhouette.
        nearest: known classes and their shares of the probability of all known classes, the largest
            first.
    """

    number: int
    known_class: int | None
    nodes: Tensor
    newness: float
    p_unknown: float
    predicted_unknown: float
    modularity: float
    conductance: float
    silhouette: float
    nearest: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Discovery:
    """All clusters of a graph.

    Args:
        state: the representation that was clustered, ``[V, D]``.
        cluster: ``[V]``; known classes have their number, new cluster ``k`` has :math:`N - 1 + k`.
        typical: how typical each node is of its cluster, ``[V]``: its simplified silhouette.
        label: the class that the model predicts, ``[V]``, :math:`N` = unknown.
        new: new clusters, the likeliest new class first.
        known: those of known classes.
    """

    state: Tensor
    cluster: Tensor
    typical: Tensor
    label: Tensor
    new: list[Cluster]
    known: list[Cluster]

    def index(self, cluster: Cluster) -> int:
        """The number of a cluster in ``cluster``."""
        if cluster.known_class is not None:
            return cluster.known_class
        return len(self.known) - 1 + cluster.number


def find(
    graph: Data, posterior: Tensor, num_clusters: int, state: Tensor | None = None
) -> Discovery:
    """Cluster a graph and measure the clusters.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        num_clusters: :math:`|C|`, known classes included.
        state: result of :func:`states`, if it is already computed.

    Raises:
        InputError: see :func:`check`.
    """
    check(posterior, num_clusters)
    label, num_known = posterior.argmax(1), posterior.size(1) - 1
    state = states(graph, posterior) if state is None else state
    unknown, split = label == num_known, label.clone()
    new_clusters = constrained_kmeans(state[unknown], num_clusters - num_known, spherical=True)
    split[unknown] = num_known + new_clusters.cluster
    cluster, typical = nearest(state, centres(state, split, num_clusters))
    adjacency = prepare(graph, "auto").adjacency("raw").matrix
    separate = np.stack(separation(adjacency, cluster.numpy(), num_clusters), 1).tolist()
    every = [_measure(k, cluster, typical, posterior, *separate[k]) for k in range(num_clusters)]

    # The last step may leave a new cluster without nodes.
    new = [k for k in range(num_known, num_clusters) if len(every[k].nodes)]
    new.sort(key=lambda k: -every[k].newness)
    number = torch.arange(num_clusters)
    number[new] = torch.arange(num_known, num_known + len(new))
    ranked = [replace(every[k], number=rank) for rank, k in enumerate(new, 1)]
    return Discovery(state, number[cluster], typical, label, ranked, every[:num_known])


def check(posterior: Tensor, num_clusters: int) -> None:
    """Refuse a posterior ``[V, N + 1]`` without unknown nodes, or an impossible number of clusters.

    Raises:
        InputError: the model predicts no node as unknown, or there are not more clusters than known
            classes, or too many for the unknown nodes.
    """
    num_known = posterior.size(1) - 1
    unknown = int((posterior.argmax(1) == num_known).sum())
    if not unknown:
        message = "this model predicts no node as unknown, so there is nothing to discover"
        raise InputError.plain("RUN", message, "That is right if every class has labels")
    if not num_known < num_clusters <= num_known + unknown:
        allowed = (
            f"{num_known + 1} to {num_known + unknown}, since there are {num_known} "
            f"known classes and {unknown} nodes are predicted as unknown"
        )
        raise InputError("--clusters", num_clusters, allowed)


def _measure(
    k: int,
    cluster: Tensor,
    typical: Tensor,
    posterior: Tensor,
    modularity: float,
    conductance: float,
) -> Cluster:
    """The figures of cluster ``k``, without its rank."""
    nodes, num_known = (cluster == k).nonzero().view(-1), posterior.size(1) - 1
    size, inside = max(len(nodes), 1), posterior[nodes].double()
    p_unknown = float(inside[:, num_known].sum()) / size
    known = inside[:, :num_known].sum(0)
    shares, order = known / known.sum().clamp(min=1e-12), (-known).argsort(stable=True)
    return Cluster(
        number=0,
        known_class=k if k < num_known else None,
        nodes=nodes[typical[nodes].argsort(descending=True, stable=True)],
        newness=p_unknown * (1 - conductance / 2),
        p_unknown=p_unknown,
        predicted_unknown=float((inside.argmax(1) == num_known).sum()) / size,
        modularity=modularity,
        conductance=conductance,
        silhouette=float(typical[nodes].sum()) / size,
        nearest=tuple((c, float(shares[c])) for c in order.tolist()),
    )


def centres(state: Tensor, group: Tensor, count: int) -> Tensor:
    """Means of groups ``0 .. count - 1`` of states ``[V, D]``, ``[count, D]``; inf if empty."""
    sums = torch.zeros(count, state.size(1)).index_add_(0, group, state)
    size = torch.bincount(group, minlength=count)[:count, None]
    return torch.where(size > 0, sums / size.clamp(min=1), torch.inf)


def nearest(state: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    r"""The nearest of two or more centres ``[C, D]``, and the simplified silhouette, both ``[V]``.

    That is :math:`(b - a) / \max(a, b)` with the distances :math:`a` to this centre and :math:`b`
    to the next one. The silhouette proper uses mean distances to all nodes.

    References:
        Hruschka et al. (ICTAI 2004).
    """
    distance = torch.cdist(state, centre).nan_to_num(torch.inf, torch.inf)
    (a, b), (first, _) = (pair.unbind(1) for pair in distance.topk(2, dim=1, largest=False))
    return first, torch.where(b.isinf(), 1.0, (b - a) / b.clamp(min=1e-12))


def members(cluster: np.ndarray, count: int, dtype: type = np.float64) -> sp.csr_array:
    """Matrix ``[count, V]`` with 1 where a node belongs to a cluster."""
    places = cluster, np.arange(len(cluster))
    return sp.csr_array((np.ones(len(cluster), dtype), places), shape=(count, len(cluster)))


def separation(
    adjacency: sp.csr_array, cluster: np.ndarray, num_clusters: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""Modularity and conductance of each cluster, both ``[C]``.

    Modularity is :math:`e_c / m - (d_c / 2m)^2`, whose sum is Newman's. Conductance is
    :math:`\text{cut} / \min(d_c, 2m - d_c)`, the share of a cluster's edge ends whose edges leave
    it; 1 for a cluster without edges.

    Args:
        adjacency: symmetric, without self-loops, ``[V, V]``.
        cluster: ``[V]``.
        num_clusters: :math:`C`.
    """
    member = members(cluster, num_clusters)
    between = (member @ adjacency @ member.T).toarray()
    inside, ends = between.diagonal(), between.sum(1)
    volume = max(ends.sum(), 1.0)
    smaller = np.minimum(ends, volume - ends)
    conductance = np.where(smaller > 0, (ends - inside) / np.maximum(smaller, 1), ends == 0)
    return inside / volume - (ends / volume) ** 2, conductance


# Representations of nodes.


def states(graph: Data, posterior: Tensor) -> Tensor:
    r"""Topics of length 1 beside :math:`\sqrt P`, whose distances are Hellinger's, ``[V, D]``."""
    return torch.cat([F.normalize(topics(graph), dim=1), posterior.float().sqrt()], 1)


def topics(graph: Data, dim: int = TOPICS) -> Tensor:
    r"""The first principal axes of :math:`\sum_t \pi_t \hat A^t X`, ``[V, dim]``.

    The sum is ten steps of personalised PageRank. Rows of :math:`X` have length 1; columns of words
    are weighted by inverse document frequency. The axes come from products with vectors, so neither
    a dense ``[V, F]`` nor a ``[V, V]`` matrix is computed.

    Args:
        graph: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        dim: number of axes; less on a graph with fewer nodes or features.
    """
    prepared = prepare(graph, "auto")
    x = _weighted(features(prepared.x))
    loops = prepared.adjacency("loops").matrix.astype(np.float64)
    walk = sp.csr_array(sp.diags_array(1 / np.asarray(loops.sum(1)).ravel()) @ loops)
    back = walk.T.tocsr()

    def smooth(v: np.ndarray, step: sp.csr_array) -> np.ndarray:
        out = v
        for _ in range(STEPS):
            out = (1 - RESTART) * (step @ out) + RESTART * v
        return out

    def centred(v: np.ndarray) -> np.ndarray:
        return v - v.mean(0)

    dim = min(dim, min(x.shape) - 1)
    if dim < 1:
        return torch.from_numpy(centred(smooth(x @ np.eye(x.shape[1]), walk))).float()
    product = LinearOperator(
        x.shape,
        matvec=lambda v: centred(smooth(x @ v, walk)),
        rmatvec=lambda u: x.T @ smooth(centred(u), back),
        dtype=np.float64,
    )
    rng = np.random.RandomState(0)
    if np.abs(product @ rng.standard_normal(x.shape[1])).max() < 1e-9:
        return torch.zeros(x.shape[0], dim)  # all nodes have one topic, which ARPACK refuses
    left, scale, _ = svds(product, k=dim, v0=rng.standard_normal(min(x.shape)))
    return torch.from_numpy(np.ascontiguousarray((left * scale)[:, ::-1])).float()


def features(x: Sparse | Tensor | Mapped) -> sp.csr_array | np.ndarray:
    """Features ``[V, F]`` of a prepared graph as a matrix."""
    return x.matrix if isinstance(x, Sparse) else np.asarray(x[:].cpu())


def are_words(x: sp.csr_array | np.ndarray) -> bool:
    """Whether no feature ``[V, F]`` is negative, so that they count occurrences of words."""
    return bool(np.asarray(x.data if isinstance(x, sp.csr_array) else x).min(initial=0) >= 0)


def _weighted(x: sp.csr_array | np.ndarray) -> sp.csr_array | np.ndarray:
    """Features ``[V, F]``; words weighted by inverse document frequency, in rows of length 1."""
    matrix = x.astype(np.float64)
    if not are_words(matrix):
        return matrix
    present = np.asarray((matrix > 0).sum(0)).ravel()
    idf = np.log((1 + matrix.shape[0]) / (1 + present))
    matrix = sp.csr_array(matrix).multiply(idf).tocsr()
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(length, 1e-12)) @ matrix)


# K-means that knows the cluster of some points.


class Clustering(NamedTuple):
    """Cluster of each point ``[V]``, centroids ``[C, D]`` and sum of squared distances to them."""

    cluster: Tensor
    centroids: Tensor
    inertia: float


@partial(checked, prefix="kmeans.")
def constrained_kmeans(
    x: Tensor,
    num_clusters: int,
    nodes: Tensor | None = None,
    label: Tensor | None = None,
    *,
    variant: Annotated[str, OneOf("constrained", "seeded")] = "constrained",
    spherical: bool = False,
    restarts: Count = 10,
    seed: int = 0,
) -> Clustering:
    """Cluster points of which some have known classes; clusters ``0 .. N - 1`` are these classes.

    The first :math:`N` centroids start at the means of the labelled points of each class, the
    others by greedy k-means++ (Arthur and Vassilvitskii, SODA 2007) on unlabelled points. Without
    labels this is plain k-means.

    Args:
        x: points, ``[V, D]``.
        num_clusters: :math:`C`.
        nodes: ids of labelled points, ``[n]``.
        label: their classes, ``[n]``, in ``0 .. N - 1`` with a point for each.
        variant: ``constrained`` = labelled points never leave their cluster; ``seeded`` = labels
            only give the first centroids.
        spherical: scale points and centroids to unit length, so that the cosine decides.
        restarts: k-means++ starts; the one with the least inertia is kept.
        seed: of k-means++.

    Raises:
        InputError: points are not a finite matrix, labels do not fit them, clusters are fewer than
            classes or more than points can fill, or an option is out of its range.

    References:
        Basu, Banerjee and Mooney (ICML 2002).
    """
    none = torch.empty(0, dtype=torch.long)
    given, classes = (none if one is None else one.cpu() for one in (nodes, label))
    num_known = _check_points(x, given, classes)
    least, most = max(num_known, 1), num_known + len(x) - len(given)
    if not least <= num_clusters <= most:
        allowed = f"{least} (the known classes) to {most} (plus one per unlabelled point)"
        raise InputError("kmeans.num_clusters", num_clusters, allowed)

    points = np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)
    points = _unit(points) if spherical else points
    ids, of = given.numpy(), classes.numpy()
    free = np.setdiff1d(np.arange(len(points)), ids)
    known = _means(points[ids], of, num_known, spherical) if num_known else points[:0]
    fixed = (ids, of) if variant == "constrained" else (ids[:0], of[:0])
    rng = np.random.RandomState(seed)
    # With a centroid from labels for each cluster there is nothing random.
    starts = (
        _plus_plus(points[free], known, num_clusters, rng)
        for _ in range(restarts if num_clusters > num_known else 1)
    )
    runs = (_lloyd(points, start, fixed, spherical) for start in starts)
    return min(runs, key=lambda run: run.inertia)


def _lloyd(
    points: np.ndarray, centroids: np.ndarray, fixed: tuple[np.ndarray, np.ndarray], spherical: bool
) -> Clustering:
    """Assign and average alternately until no point moves, at most 300 times."""
    length, rows = np.einsum("ij,ij->i", points, points), np.arange(len(points))
    cluster = None
    for _ in range(300):
        distance = _distances(points, length, centroids)
        before, cluster = cluster, distance.argmin(1)
        cluster[fixed[0]] = fixed[1]
        _fill_empty(cluster, distance[rows, cluster], fixed[0], len(centroids))
        if before is not None and np.array_equal(before, cluster):
            break
        centroids = _means(points, cluster, len(centroids), spherical)
    inertia = float(((points - centroids[cluster]) ** 2).sum(dtype=np.float64))
    return Clustering(torch.from_numpy(cluster), torch.from_numpy(centroids), inertia)


def _plus_plus(
    candidates: np.ndarray, centroids: np.ndarray, num_clusters: int, rng: np.random.RandomState
) -> np.ndarray:
    """Add centroids: of some candidates drawn by squared distance the one that leaves the least."""
    length = np.einsum("ij,ij->i", candidates, candidates)
    nearest = _distances(candidates, length, centroids).min(1) if len(centroids) else None
    trials = 2 + int(np.log(num_clusters))
    while len(centroids) < num_clusters:
        if nearest is None or not nearest.sum() > 0:
            drawn = rng.randint(len(candidates), size=1)
        else:
            cumulated = nearest.cumsum(dtype=np.float64)
            drawn = np.searchsorted(cumulated, rng.random_sample(trials) * cumulated[-1])
            drawn = drawn.clip(max=len(candidates) - 1)
        left = _distances(candidates, length, candidates[drawn])
        left = left if nearest is None else np.minimum(left, nearest[:, None])
        best = left.sum(0).argmin()
        nearest = left[:, best]
        centroids = np.concatenate([centroids, candidates[drawn[best]][None]])
    return centroids


def _fill_empty(cluster: np.ndarray, distance: np.ndarray, fixed: np.ndarray, count: int) -> None:
    """Give each empty cluster the point farthest from its centroid, in place; none gets empty."""
    sizes = np.bincount(cluster, minlength=count)
    if sizes.all():
        return
    distance = distance.copy()
    distance[fixed] = -1
    farthest = iter(distance.argsort()[::-1])
    for empty in np.flatnonzero(sizes == 0):
        point = next(point for point in farthest if sizes[cluster[point]] > 1)
        sizes[cluster[point]] -= 1
        cluster[point] = empty


def _distances(points: np.ndarray, length: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Squared distances, ``[V, C]``."""
    squares = np.einsum("ij,ij->i", centroids, centroids)
    return np.maximum(length[:, None] - 2 * points @ centroids.T + squares, 0)


def _means(points: np.ndarray, cluster: np.ndarray, count: int, spherical: bool) -> np.ndarray:
    sums = members(cluster, count, points.dtype.type) @ points
    means = sums / np.bincount(cluster, minlength=count)[:, None].astype(points.dtype)
    return _unit(means) if spherical else means


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _check_points(x: Tensor, nodes: Tensor, label: Tensor) -> int:
    """Refuse points that are not a finite matrix, and labels that do not fit; return N."""
    if x.dim() != 2 or not x.numel() or not torch.isfinite(x).all():
        message = f"the points have the shape {tuple(x.shape)}"
        hint = "Give finite numbers [V, D] of at least one point"
        raise InputError.plain("kmeans.x", message, hint)
    if nodes.shape != label.shape or nodes.dim() != 1:
        message = f"the labels have the shape {tuple(label.shape)}, the nodes {tuple(nodes.shape)}"
        raise InputError.plain("kmeans.label", message, "Give one label per node")
    if len(nodes.unique()) < len(nodes) or not torch.isin(nodes, torch.arange(len(x))).all():
        allowed = f"different ids from 0 to {len(x) - 1}"
        raise InputError("kmeans.nodes", nodes.tolist()[:9], allowed)
    classes = label.unique().tolist()
    if classes != list(range(len(classes))):
        raise InputError("kmeans.label", classes, f"0 to {max(*classes, 0)} with a point for each")
    return len(classes)

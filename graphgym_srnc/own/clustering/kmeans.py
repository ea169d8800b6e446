"""Constrained-KMeans and Seeded-KMeans of Basu, Banerjee and Mooney (ICML 2002): k-means that knows the cluster of some points."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphgym_srnc.errors import InputError

VARIANTS = ("constrained", "seeded")


@dataclass(frozen=True)
class Clustering:
    """The cluster of each point ``[V]``, the centroids ``[C, D]`` and the sum of squared distances to them."""

    cluster: Tensor
    centroids: Tensor
    inertia: float


def constrained_kmeans(x: Tensor, num_clusters: int, nodes: Tensor | None = None, label: Tensor | None = None, *,
                       variant: str = "constrained", spherical: bool = False, restarts: int = 10, max_steps: int = 300,
                       seed: int = 0) -> Clustering:
    """Cluster points of which some have known classes; cluster ``k`` below :math:`N` stands for class ``k``.

    The first :math:`N` centroids start at the means of the labelled points of each class, the others by greedy k-means++ (Arthur
    and Vassilvitskii, SODA 2007) on unlabelled points. Without labels this is plain k-means.

    Args:
        x: points, ``[V, D]``.
        num_clusters: :math:`C`.
        nodes: ids of labelled points, ``[n]``.
        label: their classes, ``[n]``, in ``0 .. N - 1`` with a point for each.
        variant: ``constrained`` = labelled points never leave their cluster; ``seeded`` = labels only give the first centroids.
        spherical: scale points and centroids to unit length, so that the cosine decides.
        restarts: k-means++ starts, of which the one with the least inertia is kept.
        max_steps: most rounds of assignment from each start.
        seed: of k-means++.

    Raises:
        InputError: points are not a finite matrix, labels do not fit them, there are fewer clusters than classes or more than
            points to fill them, or an option is not possible.
    """
    nodes, label = (torch.empty(0, dtype=torch.long) if given is None else given.cpu() for given in (nodes, label))
    num_known = _check(x, num_clusters, nodes, label, variant, restarts, max_steps)
    points, nodes, label = np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32), nodes.numpy(), label.numpy()
    points = _unit(points) if spherical else points
    free = np.setdiff1d(np.arange(len(points)), nodes)
    known = _means(points[nodes], label, num_known, spherical) if num_known else points[:0]
    fixed = (nodes, label) if variant == "constrained" else (nodes[:0], label[:0])
    rng = np.random.RandomState(seed)
    # With a centroid from labels for each cluster there is nothing random.
    runs = (_lloyd(points, _plus_plus(points, free, known, num_clusters, rng, spherical), fixed, max_steps, spherical)
            for _ in range(restarts if num_clusters > num_known else 1))
    cluster, centroids, inertia = min(runs, key=lambda run: run[2])
    return Clustering(torch.from_numpy(cluster), torch.from_numpy(centroids), inertia)


def split_unknown(named: Tensor, unknown: int, hidden: Tensor, num_clusters: int, seed: int = 0) -> Tensor:
    """The classes that a method names, and k-means by cosine among the nodes that it calls unknown.

    Args:
        named: classes, ``[V]``, with ``unknown`` for nodes of no known class.
        unknown: label of the unknown class, :math:`N`.
        hidden: a state of each node, ``[V, H]``, e.g. that of a cluster GNN.
        num_clusters: :math:`C`, of which :math:`C - N` split the unknown nodes, or one where that leaves none.
        seed: of k-means.

    Returns:
        Clusters ``[V]``: known classes keep their number, the others follow from ``unknown`` on.
    """
    cluster, rest = named.clone(), (named == unknown).nonzero().view(-1)
    count = min(max(num_clusters - unknown, 1), len(rest))
    if count > 1:
        cluster[rest] = unknown + constrained_kmeans(hidden[rest], count, spherical=True, seed=seed).cluster
    return cluster


def _lloyd(points: np.ndarray, centroids: np.ndarray, fixed: tuple[np.ndarray, np.ndarray], max_steps: int,
           spherical: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Assign and average by turns until no point moves."""
    length, rows = np.einsum("ij,ij->i", points, points), np.arange(len(points))
    cluster = None
    for _ in range(max_steps):
        distance = _distances(points, length, centroids)
        before, cluster = cluster, distance.argmin(1)
        cluster[fixed[0]] = fixed[1]
        _fill_empty(cluster, distance[rows, cluster], fixed[0], len(centroids))
        if before is not None and np.array_equal(before, cluster):
            break
        centroids = _means(points, cluster, len(centroids), spherical)
    return cluster, centroids, float(((points - centroids[cluster]) ** 2).sum(dtype=np.float64))


def _plus_plus(points: np.ndarray, free: np.ndarray, centroids: np.ndarray, num_clusters: int, rng: np.random.RandomState,
               spherical: bool) -> np.ndarray:
    """Add centroids out of the ``free`` points: of some drawn by squared distance the one that leaves the least of it."""
    candidates, length = points[free], np.einsum("ij,ij->i", points[free], points[free])
    nearest = _distances(candidates, length, centroids).min(1) if len(centroids) else None
    trials = 2 + int(np.log(num_clusters))
    while len(centroids) < num_clusters:
        if nearest is None or not nearest.sum() > 0:
            drawn = rng.randint(len(free), size=1)
        else:
            cumulated = nearest.cumsum(dtype=np.float64)
            drawn = np.searchsorted(cumulated, rng.random_sample(trials) * cumulated[-1]).clip(max=len(free) - 1)
        left = _distances(candidates, length, candidates[drawn])
        left = left if nearest is None else np.minimum(left, nearest[:, None])
        best = left.sum(0).argmin()
        nearest, centroids = left[:, best], np.concatenate([centroids, candidates[drawn[best]][None]])
    return centroids


def _fill_empty(cluster: np.ndarray, distance: np.ndarray, fixed: np.ndarray, num_clusters: int) -> None:
    """Give each empty cluster the point that is farthest from its centroid, of clusters that keep another one; in place."""
    count = np.bincount(cluster, minlength=num_clusters)
    if count.all():
        return
    distance = distance.copy()
    distance[fixed] = -1
    farthest = iter(distance.argsort()[::-1])
    for empty in np.flatnonzero(count == 0):
        point = next(point for point in farthest if count[cluster[point]] > 1)
        count[cluster[point]] -= 1
        cluster[point] = empty


def _distances(points: np.ndarray, length: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Squared distances, ``[V, C]``."""
    return np.maximum(length[:, None] - 2 * points @ centroids.T + np.einsum("ij,ij->i", centroids, centroids), 0)


def _means(points: np.ndarray, cluster: np.ndarray, num_clusters: int, spherical: bool) -> np.ndarray:
    ones = np.ones(len(points), dtype=points.dtype)
    sums = sp.csr_array((ones, (cluster, np.arange(len(points)))), shape=(num_clusters, len(points))) @ points
    means = sums / np.bincount(cluster, minlength=num_clusters)[:, None].astype(points.dtype)
    return _unit(means) if spherical else means


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _check(x: Tensor, num_clusters: int, nodes: Tensor, label: Tensor, variant: str, restarts: int, max_steps: int) -> int:
    """Refuse what makes no sense; the number of known classes."""
    if x.dim() != 2 or not x.numel():
        raise InputError("kmeans.x", tuple(x.shape), "a matrix [V, D] that is not empty")
    if not torch.isfinite(x).all():
        raise InputError("kmeans.x", "NaN or Inf", "finite points")
    if variant not in VARIANTS:
        raise InputError("kmeans.variant", variant, ", ".join(VARIANTS))
    for name, value in {"restarts": restarts, "max_steps": max_steps}.items():
        if value < 1:
            raise InputError(f"kmeans.{name}", value, "1 or more")
    if nodes.shape != label.shape or nodes.dim() != 1:
        raise InputError("kmeans.label", tuple(label.shape), f"a class for each labelled point, shape {list(nodes.shape)}")
    if len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < len(x) or len(nodes.unique()) < len(nodes):
        raise InputError("kmeans.nodes", [int(nodes.min()), int(nodes.max())], f"different ids in 0 .. {len(x) - 1}")
    num_known = len(label.unique())
    if num_known and (int(label.min()) < 0 or int(label.max()) != num_known - 1):
        raise InputError("kmeans.label", label.unique().tolist(), f"classes 0 .. {max(int(label.max()), 0)} with a point for each")
    if not max(num_known, 1) <= num_clusters <= num_known + len(x) - len(nodes):
        allowed = f"{max(num_known, 1)} (known classes) to {num_known + len(x) - len(nodes)} (known classes and unlabelled points)"
        raise InputError("kmeans.num_clusters", num_clusters, allowed)
    return num_known

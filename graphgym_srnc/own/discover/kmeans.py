"""K-means that knows the cluster of some points (Basu, Banerjee and Mooney, ICML 2002)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphgym_srnc.core.options import Count, OneOf, checked
from graphgym_srnc.errors import InputError


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
        restarts: k-means++ starts, of which the one with the least inertia is kept.
        seed: of k-means++.

    Raises:
        InputError: points are not a finite matrix, labels do not fit them, clusters are fewer than
            classes or more than points can fill, or an option is out of its range.
    """
    none = torch.empty(0, dtype=torch.long)
    given, classes = (none if one is None else one.cpu() for one in (nodes, label))
    _check_points(x)
    num_known = _check_labels(len(x), given, classes)
    least, most = max(num_known, 1), num_known + len(x) - len(given)
    if not least <= num_clusters <= most:
        raise InputError(
            "kmeans.num_clusters",
            num_clusters,
            f"{least} (the known classes) to {most} (plus one per unlabelled point)",
        )

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


def split_unknown(
    named: Tensor, unknown: int, hidden: Tensor, num_clusters: int, seed: int = 0
) -> Tensor:
    """Predicted known classes, and k-means by cosine among the nodes predicted as unknown.

    Args:
        named: classes, ``[V]``, with ``unknown`` for nodes of no known class.
        unknown: label of the unknown class, :math:`N`.
        hidden: a state of each node, ``[V, H]``, e.g. that of a cluster GNN.
        num_clusters: :math:`C`, of which :math:`C - N` split the unknown nodes, at least one.
        seed: of k-means.

    Returns:
        Clusters ``[V]``: known classes keep their number, the others follow from ``unknown`` on.
    """
    cluster, rest = named.clone(), (named == unknown).nonzero().view(-1)
    count = min(max(num_clusters - unknown, 1), len(rest))
    if count > 1:
        split = constrained_kmeans(hidden[rest], count, spherical=True, seed=seed)
        cluster[rest] = unknown + split.cluster
    return cluster


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
    entries = np.ones(len(points), dtype=points.dtype), (cluster, np.arange(len(points)))
    sums = sp.csr_array(entries, shape=(count, len(points))) @ points
    means = sums / np.bincount(cluster, minlength=count)[:, None].astype(points.dtype)
    return _unit(means) if spherical else means


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _check_points(x: Tensor) -> None:
    if x.dim() != 2 or not x.numel() or not torch.isfinite(x).all():
        raise InputError.plain(
            "kmeans.x",
            f"the points have the shape {tuple(x.shape)}",
            "Give finite numbers [V, D] of at least one point",
        )


def _check_labels(num_points: int, nodes: Tensor, label: Tensor) -> int:
    """Refuse labels that do not fit; the number of known classes."""
    if nodes.shape != label.shape or nodes.dim() != 1:
        message = f"the labels have the shape {tuple(label.shape)}, the nodes {tuple(nodes.shape)}"
        raise InputError.plain("kmeans.label", message, "Give one label per node")
    if len(nodes.unique()) < len(nodes) or not torch.isin(nodes, torch.arange(num_points)).all():
        raise InputError(
            "kmeans.nodes", nodes.tolist()[:9], f"different ids from 0 to {num_points - 1}"
        )
    classes = label.unique().tolist()
    if classes != list(range(len(classes))):
        raise InputError("kmeans.label", classes, f"0 to {max(*classes, 0)} with a point for each")
    return len(classes)

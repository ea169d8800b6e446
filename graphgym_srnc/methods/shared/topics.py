"""Topics of nodes: principal axes of their features, or of those of their neighbourhoods."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse, prepare
from graphgym_srnc.core import progress

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

TOPICS = 20  # width of topics()
STEPS = 10  # of its PageRank
RESTART = 0.1  # of its PageRank
LEAST_LABELS = 30  # labels that decide which topics are the best
CLEARLY = 0.05  # share of labels that scaled topics must tell apart beside those that others do
SHRINKAGE = 0.1  # of the covariance within classes
TINY = 1e-12  # variance of topics that are all the same
OVERSAMPLING = 10  # additional columns of the randomised SVD
POWERS = 6  # its power iterations

Matrix: TypeAlias = sp.csr_array | np.ndarray


def best_topics(graph: Data, label: Tensor) -> Tensor:
    """Topics of neighbourhoods or of nodes alone, perhaps scaled: those that tell classes apart.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        label: class of each labelled node, ``[V]``; -1 = none.
    """
    smoothed = topics(graph)
    nodes = (label >= 0).nonzero().view(-1)
    if len(nodes) < LEAST_LABELS:
        return smoothed
    own = label[nodes]
    pair = (smoothed, topics(graph, steps=0))
    plain = [told_apart(one[nodes], own) for one in pair]
    scaled = [_told_apart_if_scaled(one[nodes], own) for one in pair]
    if max(scaled) > max(plain) + CLEARLY:
        return scaled_by_classes(pair[scaled.index(max(scaled))], nodes, own)
    return pair[plain.index(max(plain))]


def _told_apart_if_scaled(topics: Tensor, label: Tensor) -> float:
    """What :func:`told_apart` is of topics ``[n, D]`` that other labels ``[n]`` scaled."""
    order = torch.randperm(len(label), generator=torch.Generator().manual_seed(0))
    halves = order.chunk(2)
    found = [
        told_apart(scaled_by_classes(topics, learned, label[learned])[judged], label[judged])
        for learned, judged in (halves, halves[::-1])
    ]
    return sum(found) / len(found)


def scaled_by_classes(topics: Tensor, nodes: Tensor, label: Tensor) -> Tensor:
    r"""Topics ``[V, D]`` whose covariance within known classes is about the identity.

    .. math:: T \left(C + 0.1\, \frac{\text{tr}\, C}{D} I\right)^{-1/2}

    Directions in which classes do not differ, such as that of a category beside the matter, then
    count less than those in which they do.

    Args:
        topics: of all nodes.
        nodes, label: labelled nodes and their classes, ``[n]``.
    """
    own = topics[nodes].double()
    member = F.one_hot(label).double()
    means = member.T @ own / member.sum(0).clamp(min=1)[:, None]
    within = own - means[label]
    covariance = within.T @ within / len(own)
    covariance.diagonal().add_(SHRINKAGE * covariance.diagonal().mean())
    variance, axes = torch.linalg.eigh(covariance)
    return (topics.double() @ (axes / variance.clamp(min=TINY).sqrt()) @ axes.T).float()


def told_apart(topics: Tensor, label: Tensor) -> float:
    """Share of labelled nodes most similar to the other nodes of their class.

    Args:
        topics, label: ``[n, D]`` and ``[n]``.
    """
    unit = F.normalize(topics.double(), dim=1)
    sums = F.one_hot(label).double().T @ unit
    similarity = unit @ F.normalize(sums, dim=1).T
    others = F.normalize(sums[label] - unit, dim=1)
    similarity[torch.arange(len(label)), label] = (unit * others).sum(1)
    return float((similarity.argmax(1) == label).double().mean())


def topics(graph: Data, dim: int = TOPICS, steps: int = STEPS) -> Tensor:
    r"""The first principal axes of :math:`\sum_t \pi_t \hat A^t X`, ``[V, dim]``.

    The sum is that of some steps of personalised PageRank; without steps it is :math:`X`. Rows of
    :math:`X` have length 1; columns of words are weighted by inverse document frequency. A
    randomised SVD multiplies narrow matrices only, so neither a dense ``[V, F]`` nor a ``[V, V]``
    matrix is computed.

    Args:
        graph: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        dim: number of axes; less on a graph with fewer nodes or features.
        steps: number of steps.

    References:
        Halko, Martinsson and Tropp (SIAM Review 2011).
    """
    x = weighted(features(graph, "auto")).astype(np.float32)
    loops = prepare(graph, "auto").adjacency("loops").matrix.astype(np.float32)
    rows = sp.csr_array(sp.diags_array(1 / np.asarray(loops.sum(1)).ravel()) @ loops)
    walk = Sparse(rows.astype(np.float32))
    back = Sparse(rows.T.tocsr().astype(np.float32))

    def smooth(v: np.ndarray, step: Sparse) -> np.ndarray:
        start = torch.from_numpy(v)
        restart = RESTART * start
        out = start
        for _ in range(steps):
            out = (step @ out).mul_(1 - RESTART).add_(restart)
        return out.numpy()

    def forward(v: np.ndarray) -> np.ndarray:
        smoothed = smooth(x @ v, walk)
        smoothed -= smoothed.mean(0)
        return smoothed

    size = min(dim + OVERSAMPLING, *x.shape)
    basis = np.random.RandomState(0).standard_normal((x.shape[1], size)).astype(np.float32)
    for _ in progress.steps(POWERS):
        basis = _orthonormal(x.T @ smooth(forward(basis), back))
    left, scale, _ = np.linalg.svd(forward(basis), full_matrices=False)
    return torch.from_numpy(np.ascontiguousarray((left * scale)[:, :dim]))


def _orthonormal(matrix: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns of a float32 matrix, computed in double precision."""
    # numpy does the same with two more copies, and takes twice as long.
    return torch.linalg.qr(torch.from_numpy(matrix).double()).Q.float().contiguous().numpy()


def features(graph: Data, prepared: str = "none") -> Matrix:
    """Features ``[V, F]`` of a graph as a matrix."""
    x = prepare(graph, prepared).x
    return x.matrix if isinstance(x, Sparse) else np.asarray(x[:].cpu())


def are_words(x: Matrix) -> bool:
    """Whether no feature ``[V, F]`` is negative, so that they count occurrences of words."""
    return not (x < 0).sum()


def by_group(x: Matrix, group: np.ndarray, count: int) -> np.ndarray:
    """Sums of the rows ``[V, F]`` of each of ``count`` groups, ``[count, F]``."""
    nodes = np.arange(len(group))
    member = sp.csr_array((np.ones(len(group)), (group, nodes)), shape=(count, len(group)))
    sums = member @ x
    return sums.toarray() if sp.issparse(sums) else sums


def weighted(x: Matrix) -> Matrix:
    """Features ``[V, F]``; words weighted by inverse document frequency, in rows of length 1."""
    from sklearn.preprocessing import normalize  # slow import, which few commands need

    matrix = x.astype(np.float64)
    if not are_words(matrix):
        return matrix
    present = np.asarray((matrix > 0).sum(0)).ravel()
    idf = np.log((1 + matrix.shape[0]) / (1 + present))
    return normalize(sp.csr_array(matrix).multiply(idf).tocsr())


def kmeans(unit: np.ndarray, number: int, restarts: int = 10, seed: int = 0) -> KMeans:
    """K-means of vectors of length 1, ``[n, D]``, which is spherical up to the centres' lengths."""
    from sklearn.cluster import KMeans  # slow import, which few commands need
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # points that coincide
        return KMeans(number, n_init=restarts, random_state=seed).fit(unit)

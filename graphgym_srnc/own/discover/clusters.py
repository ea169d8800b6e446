"""Clusters of a graph: those of known classes, and those that may be new classes.

K-means splits the nodes that the model predicts as unknown. Then every node moves to the nearest
centre, of a new cluster or of the nodes of a known class. So a new cluster may contain nodes that
the model predicts as known; its share of unknown nodes shows how many.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse, prepare
from graphgym_srnc.core import progress
from graphgym_srnc.data.edges import SMALL, component_sizes
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.losses.modularity import LEAST
from graphgym_srnc.plots import embedding

TOPICS, STEPS, RESTART = 20, 10, 0.1  # width of topics(); steps, restart of its PageRank
ANCHORS = 1000  # nodes that t-SNE places, since its time is most of that of a page
OVERSAMPLING, POWERS = 10, 6  # additional columns and power iterations of the randomised SVD
BEYOND, SAMPLE = 10, 2000  # maximum number of new clusters tried, and of nodes k-means learns from
FLAT = 0.005  # relative difference of modularity below which fewer clusters are preferred


@dataclass(frozen=True, eq=False)
class Cluster:
    r"""A cluster and its figures.

    Its newness, how likely it is a class of its own, is :math:`\bar P_u (1 - \phi / 2)`: its mean
    probability of the unknown class less up to half of it for edges that leave it.
    """

    name: str  # class that it belongs to, or the name that a user gave to a new cluster, or ""
    number: int  # 1, 2, ... for new clusters, the likeliest new class first; 0 for a known class
    nodes: Tensor  # the most typical first, and those in small components last, [n]
    small: int  # number of its nodes in small components
    newness: float
    p_unknown: float  # mean probability of the unknown class
    predicted_unknown: float  # share of its nodes that the model predicts as unknown
    modularity: float  # contribution to the modularity of the clustering
    conductance: float  # see separation
    silhouette: float  # mean simplified silhouette
    nearest: tuple[tuple[int, float], ...]  # known classes by share of P(known), largest first


@dataclass(frozen=True, eq=False)
class Discovery:
    """All clusters of a graph."""

    state: Tensor  # the representation that was clustered, [V, D]
    posterior: Tensor  # of the model, [V, N + 1], the unknown class last
    cluster: Tensor  # [V], positions in ``every``
    typical: Tensor  # how typical each node is of its cluster, [V]: its simplified silhouette
    known: list[Cluster]  # clusters of known classes
    new: list[Cluster]  # new clusters, the likeliest new class first

    @property
    def every(self) -> list[Cluster]:
        """Clusters of known classes, then new ones."""
        return [*self.known, *self.new]

    @property
    def label(self) -> Tensor:
        """The class that the model predicts, ``[V]``, :math:`N` = unknown."""
        return self.posterior.argmax(1)

    @property
    def classes(self) -> list[str]:
        """Names of the known classes."""
        return [cluster.name for cluster in self.known]

    def named(self, names: Mapping[int, str]) -> Discovery:
        """The same clusters; new ones have names by number.

        Raises:
            InputError: there is no new cluster with such a number.
        """
        if wrong := [number for number in names if number not in range(1, len(self.new) + 1)]:
            allowed = f"numbers of new clusters, from 1 to {len(self.new)}"
            raise InputError("names", wrong[0], allowed)
        new = [replace(cluster, name=names.get(cluster.number, "")) for cluster in self.new]
        return replace(self, new=new)


def find(
    graph: Data,
    posterior: Tensor | np.ndarray,
    num_clusters: int = 0,
    classes: Sequence[Any] | np.ndarray = (),
    state: Tensor | None = None,
) -> Discovery:
    """Cluster a graph and measure the clusters.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        num_clusters: :math:`|C|`, known classes included; 0 = estimated by :func:`modularities`.
        classes: names of the known classes (default: their numbers).
        state: result of :func:`states`, if it is already computed.

    Raises:
        InputError: see :func:`check`.
    """
    posterior = torch.as_tensor(posterior)
    with renamed({"RUN": "posterior", "--clusters": "num_clusters"}):
        check(posterior, num_clusters or posterior.size(1))
    label, num_known = posterior.argmax(1), posterior.size(1) - 1
    state = states(graph, posterior) if state is None else state
    num_clusters = num_clusters or suggested(modularities(graph, posterior, state))
    unknown = (label == num_known).nonzero().view(-1)
    cluster, typical = _assign(state, label, num_known, unknown, num_clusters)
    adjacency = prepare(graph, "auto").adjacency("raw").matrix
    modularity, conductance = separation(adjacency, cluster.numpy(), num_clusters)
    called = map(str, classes if len(classes) else range(num_known))
    names = [*list(called)[:num_known], *[""] * (num_clusters - num_known)]
    sizes = component_sizes(graph.edge_index.numpy(), graph.num_nodes)
    small = torch.from_numpy(sizes <= SMALL)
    rank = torch.where(small, typical - 2, typical)
    every = []
    for k, name in enumerate(names):
        nodes = (cluster == k).nonzero().view(-1)
        size, inside = max(len(nodes), 1), posterior[nodes].double()
        p_unknown = float(inside[:, -1].sum()) / size
        known = inside[:, :-1].sum(0)
        shares, order = known / known.sum().clamp(min=1e-12), (-known).argsort(stable=True)
        made = Cluster(
            name,
            number=0,
            nodes=nodes[rank[nodes].argsort(descending=True, stable=True)],
            small=int(small[nodes].sum()),
            newness=p_unknown * (1 - float(conductance[k]) / 2),
            p_unknown=p_unknown,
            predicted_unknown=float((inside.argmax(1) == num_known).sum()) / size,
            modularity=float(modularity[k]),
            conductance=float(conductance[k]),
            silhouette=float(typical[nodes].sum()) / size,
            nearest=tuple((c, float(shares[c])) for c in order.tolist()),
        )
        every.append(made)

    # The last step may leave a new cluster without nodes.
    new = [k for k in range(num_known, num_clusters) if len(every[k].nodes)]
    new.sort(key=lambda k: -every[k].newness)
    place = torch.arange(num_clusters)
    place[new] = torch.arange(num_known, num_known + len(new))
    ranked = [replace(every[k], number=rank) for rank, k in enumerate(new, 1)]
    return Discovery(state, posterior, place[cluster], typical, every[:num_known], ranked)


def check(
    posterior: Tensor, num_clusters: int, why: str = "That is right if every class has labels"
) -> None:
    """Refuse a posterior ``[V, N + 1]`` without unknown nodes, or an impossible number of clusters.

    Raises:
        InputError: the model predicts no node as unknown, or there are not more clusters than known
            classes, or too many for the unknown nodes; ``why`` explains the first.
    """
    num_known = posterior.size(1) - 1
    unknown = int((posterior.argmax(1) == num_known).sum())
    if not unknown:
        message = "this model predicts no node as unknown, so there is nothing to discover"
        raise InputError.plain("RUN", message, why)
    if not num_known < num_clusters <= num_known + unknown:
        allowed = (
            f"{num_known + 1} to {num_known + unknown}, since there are {num_known} "
            f"known classes and {unknown} nodes are predicted as unknown"
        )
        raise InputError("--clusters", num_clusters, allowed)


def modularities(graph: Data, posterior: Tensor, state: Tensor) -> dict[int, float]:
    """Newman's modularity of the clustered graph by number of clusters, known classes included.

    K-means learns from at most ``SAMPLE`` of the unknown nodes. The arguments are those of
    :func:`find`.
    """
    adjacency = prepare(graph, "auto").adjacency("raw").matrix
    label, num_known = posterior.argmax(1), posterior.size(1) - 1
    unknown = (label == num_known).nonzero().view(-1)
    drawn = unknown[torch.from_numpy(embedding.sample(len(unknown), SAMPLE))]
    result = {}
    for number in progress.steps(max(1, min(BEYOND, len(drawn) // 5))):
        count = num_known + number + 1
        cluster, _ = _assign(state, label, num_known, drawn, count, restarts=3)
        result[count] = float(separation(adjacency, cluster.numpy(), count)[0].sum())
    return result


def suggested(modularity: Mapping[int, float]) -> int:
    """The smallest number of clusters whose modularity is within ``FLAT`` of the largest."""
    best = max(modularity.values())
    return min(count for count, value in modularity.items() if value >= best - FLAT * abs(best))


def _assign(
    state: Tensor, label: Tensor, num_known: int, drawn: Tensor, count: int, restarts: int = 10
) -> tuple[Tensor, Tensor]:
    """The nearest of ``count`` centres and the silhouette of each node; see :func:`nearest`.

    Centres of new clusters are those of k-means by the cosine of the ``drawn`` nodes.
    """
    means = KMeans(count - num_known, n_init=restarts, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # points that coincide
        group = means.fit_predict(F.normalize(state[drawn], dim=1).numpy())
    known = centres(state, label, num_known + 1)[:num_known]
    new = centres(state[drawn], torch.from_numpy(group).long(), count - num_known)
    return nearest(state, torch.cat([known, new]))


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
    links = adjacency.tocoo()
    pairs = cluster[links.row] * num_clusters + cluster[links.col]
    between = np.bincount(pairs, links.data, num_clusters**2).reshape(num_clusters, num_clusters)
    inside, ends = between.diagonal(), between.sum(1)
    volume = max(ends.sum(), LEAST)
    smaller = np.minimum(ends, volume - ends)
    conductance = np.where(smaller > 0, (ends - inside) / np.maximum(smaller, LEAST), ends == 0)
    return inside / volume - (ends / volume) ** 2, conductance


# Representations of nodes.


def states(graph: Data, posterior: Tensor) -> Tensor:
    r"""Topics of length 1 beside :math:`\sqrt P`, whose distances are Hellinger's, ``[V, D]``."""
    return torch.cat([F.normalize(topics(graph), dim=1), posterior.float().sqrt()], 1)


def topics(graph: Data, dim: int = TOPICS) -> Tensor:
    r"""The first principal axes of :math:`\sum_t \pi_t \hat A^t X`, ``[V, dim]``.

    The sum is ten steps of personalised PageRank. Rows of :math:`X` have length 1; columns of words
    are weighted by inverse document frequency. A randomised SVD multiplies narrow matrices only, so
    neither a dense ``[V, F]`` nor a ``[V, V]`` matrix is computed.

    Args:
        graph: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        dim: number of axes; less on a graph with fewer nodes or features.

    References:
        Halko, Martinsson and Tropp (SIAM Review 2011).
    """
    prepared = prepare(graph, "auto")
    x = _weighted(features(prepared.x)).astype(np.float32)
    loops = prepared.adjacency("loops").matrix.astype(np.float32)
    walk = sp.csr_array(sp.diags_array(1 / np.asarray(loops.sum(1)).ravel()) @ loops)
    back = walk.T.tocsr()

    def smooth(v: np.ndarray, step: sp.csr_array) -> np.ndarray:
        out = v
        for _ in range(STEPS):
            out = (1 - RESTART) * (step @ out) + RESTART * v
        return out

    def forward(v: np.ndarray) -> np.ndarray:
        smoothed = smooth(x @ v, walk)
        return smoothed - smoothed.mean(0)

    size = min(dim + OVERSAMPLING, *x.shape)
    basis = np.random.RandomState(0).standard_normal((x.shape[1], size)).astype(np.float32)
    for _ in progress.steps(POWERS):
        image, _ = np.linalg.qr(forward(basis))
        basis, _ = np.linalg.qr(x.T @ smooth(image - image.mean(0), back))
    left, scale, _ = np.linalg.svd(forward(basis), full_matrices=False)
    return torch.from_numpy(np.ascontiguousarray((left * scale)[:, :dim]))


def features(x: Sparse | Tensor) -> sp.csr_array | np.ndarray:
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
    return normalize(sp.csr_array(matrix).multiply(idf).tocsr())


@lru_cache(maxsize=1)
def layout(discovery: Discovery) -> np.ndarray:
    """Position ``[V, 2]`` of each node: t-SNE of at most ``ANCHORS`` nodes; each of the others
    lies among the three of these nodes that are most similar to it."""
    shown, state = embedding.sample(len(discovery.cluster), ANCHORS), discovery.state
    points = np.empty((len(state), 2))
    points[shown] = embedding.map_2d(state[shown].numpy(), "tsne")
    others = np.setdiff1d(np.arange(len(state)), shown)
    for part in np.array_split(others, len(others) // 4096 + 1):
        nearest = torch.cdist(state[part], state[shown]).topk(min(3, len(shown)), largest=False)
        weight = 1 / nearest.values.clamp(min=1e-6).numpy()
        near = points[shown][nearest.indices.numpy()]
        points[part] = (near * (weight / weight.sum(1, keepdims=True))[:, :, None]).sum(1)
    return points

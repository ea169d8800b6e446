"""From a prediction to clusters: those of known classes, those that no known class stands for, and the figures of each.

A node's state has two halves of equal length: what the words around it are about (:func:`topics`), and the posterior of the model. K-means
splits the nodes that the model calls unknown, and then every node goes to the nearest centre, of these new clusters or of the nodes of a
known class. So the model's threshold says where to look but does not bound a cluster: it may hold nodes that the model calls known, and its
share of unknown ones says how many.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse, prepare
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.clustering import split_unknown

TOPICS, STEPS, RESTART = 20, 10, 0.1
"""Width of :func:`topics`; steps and restart of its personalised PageRank."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster and its figures.

    Args:
        number: 1, 2, ... for unaligned clusters, the likeliest new class first; 0 for that of a known class.
        known: the known class that it belongs to, or None.
        nodes: its nodes, the most typical first, ``[n]``.
        newness: how likely it is a class of its own, see :func:`newness`.
        unknown: share of its nodes that the model calls unknown.
        sure: mean probability of the unknown class.
        modularity: what it adds to the modularity of the clustering.
        conductance: share of its edges' ends that belong to edges which leave it, or of the rest's ends where those are fewer.
        silhouette: mean simplified silhouette.
        nearest: known classes and their share of the probability of all known classes, the largest first.
    """

    number: int
    known: int | None
    nodes: Tensor
    newness: float
    unknown: float
    sure: float
    modularity: float
    conductance: float
    silhouette: float
    nearest: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Discovery:
    """All clusters of a graph.

    Args:
        state: what was clustered, ``[V, D]``.
        cluster: ``[V]``; known classes have their number, the unaligned cluster ``k`` has :math:`N - 1 + k`.
        typical: how typical each node is of its cluster, ``[V]``: its simplified silhouette.
        label: what the model says, ``[V]``, :math:`N` = unknown.
        new: unaligned clusters, the likeliest new class first.
        known: those of known classes.
    """

    state: Tensor
    cluster: Tensor
    typical: Tensor
    label: Tensor
    new: list[Cluster]
    known: list[Cluster]

    @property
    def num_known(self) -> int:
        return len(self.known)


def topics(graph: Data, dim: int = TOPICS) -> Tensor:
    r"""What the words around each node are about: the first principal axes of :math:`\sum_t \pi_t \hat A^t X`, ``[V, dim]``.

    The sum is ten steps of personalised PageRank. Rows of :math:`X` have length one; its columns are weighted by inverse document frequency
    where features are words (0 or more). Neither a dense ``[V, F]`` nor a ``[V, V]`` matrix is made; the axes come from products
    with vectors.

    Args:
        graph: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        dim: number of axes; less on a graph with fewer nodes or features.
    """
    own = prepare(graph, "auto")
    loops, x = own.adjacency("loops").matrix.astype(np.float64), _weighted(own.x)
    walk = sp.csr_array(sp.diags_array(1 / np.asarray(loops.sum(1)).ravel()) @ loops)
    back = walk.T.tocsr()

    def smooth(v: np.ndarray, step: sp.csr_array) -> np.ndarray:
        out = v
        for _ in range(STEPS):
            out = (1 - RESTART) * (step @ out) + RESTART * v
        return out

    def centred(v: np.ndarray) -> np.ndarray:
        return v - v.mean(0)

    product = LinearOperator(x.shape, matvec=lambda v: centred(smooth(x @ v, walk)),
                             rmatvec=lambda u: x.T @ smooth(centred(u), back), dtype=np.float64)
    dim = min(dim, min(x.shape) - 1)
    if dim < 1:
        return torch.from_numpy(centred(smooth(x @ np.eye(x.shape[1]), walk))).float()
    rng = np.random.RandomState(0)
    if np.abs(product @ rng.standard_normal(x.shape[1])).max() < 1e-9:
        return torch.zeros(x.shape[0], dim)  # all nodes are about the same, which ARPACK refuses
    left, scale, _ = svds(product, k=dim, v0=rng.standard_normal(min(x.shape)))
    return torch.from_numpy(np.ascontiguousarray((left * scale)[:, ::-1])).float()


def states(graph: Data, posterior: Tensor) -> Tensor:
    r"""What is clustered, ``[V, D]``: topics of length one beside :math:`\sqrt{P}`, whose distances are Hellinger's."""
    return torch.cat([F.normalize(topics(graph), dim=1), posterior.float().sqrt()], 1)


def centres(state: Tensor, group: Tensor, count: int) -> Tensor:
    """Means of groups ``0 .. count - 1`` of states ``[V, D]``, ``[count, D]``; infinitely far where a group is empty."""
    sums = torch.zeros(count, state.size(1)).index_add_(0, group, state)
    size = torch.bincount(group, minlength=count)[:count, None]
    return torch.where(size > 0, sums / size.clamp(min=1), torch.inf)


def nearest(state: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    r"""The nearest centre of each node, and its simplified silhouette, both ``[V]``: :math:`(b - a) / \max(a, b)` with the distances
    :math:`a` to that centre and :math:`b` to the next one, where the silhouette proper has mean distances to all nodes (Hruschka et al.,
    2004). Time O(V C D).

    Args:
        state: ``[V, D]``.
        centre: two or more, ``[C, D]``.
    """
    distance = torch.cdist(state, centre).nan_to_num(torch.inf, torch.inf)
    (a, b), (own, _) = (part.unbind(1) for part in distance.topk(2, dim=1, largest=False))
    return own, torch.where(b.isinf(), 1.0, (b - a) / b.clamp(min=1e-12))


def find(graph: Data, posterior: Tensor, num_clusters: int, seed: int = 0, state: Tensor | None = None) -> Discovery:
    """Cluster a graph and measure the clusters.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        num_clusters: :math:`|C|`, known classes included.
        seed: of k-means.
        state: that of :func:`states`, if it is there.

    Raises:
        InputError: the model calls no node unknown, or there are not more clusters than known classes, or too many for the unknown nodes.
    """
    check(posterior, num_clusters)
    label, num_known = posterior.argmax(1), posterior.size(1) - 1
    state = states(graph, posterior) if state is None else state
    cluster, fit = nearest(state, centres(state, split_unknown(label, num_known, state, num_clusters, seed), num_clusters))
    figures = separation(prepare(graph, "auto").adjacency("raw").matrix, cluster.numpy(), num_clusters)
    every = [_measure(k, cluster, fit, posterior, figures) for k in range(num_clusters)]
    # The last step may leave a new cluster without nodes.
    ranked = sorted((k for k in range(num_known, num_clusters) if len(every[k].nodes)), key=lambda k: (-every[k].newness, k))
    number = torch.arange(num_clusters)
    number[ranked] = torch.arange(num_known, num_known + len(ranked))
    return Discovery(state, number[cluster], fit, label, [replace(every[k], number=rank) for rank, k in enumerate(ranked, 1)],
                     every[:num_known])


def check(posterior: Tensor, num_clusters: int) -> None:
    """Refuse a posterior ``[V, N + 1]`` with nothing to discover, and a number of clusters that cannot be.

    Raises:
        InputError: as :func:`find` says.
    """
    num_known = posterior.size(1) - 1
    called = int((posterior.argmax(1) == num_known).sum())
    if not called:
        raise InputError("RUN", "a model that calls no node unknown", "a model with something to discover")
    if not num_known < num_clusters <= num_known + called:
        allowed = f"{num_known + 1} (one beside {num_known} known classes) to {num_known + called} ({called} nodes are called unknown)"
        raise InputError("--clusters", num_clusters, allowed)


def _measure(k: int, cluster: Tensor, fit: Tensor, posterior: Tensor, figures: dict[str, np.ndarray]) -> Cluster:
    """The figures of cluster ``k``, without its rank."""
    own, num_known = (cluster == k).nonzero().view(-1), posterior.size(1) - 1
    size, inside = max(len(own), 1), posterior[own].double()
    share = inside[:, :num_known].sum(0)
    order = share.argsort(descending=True, stable=True).tolist()
    sure, conductance = float(inside[:, num_known].sum()) / size, float(figures["conductance"][k])
    return Cluster(
        number=0, known=k if k < num_known else None, nodes=own[fit[own].argsort(descending=True, stable=True)],
        newness=newness(sure, conductance), unknown=float((inside.argmax(1) == num_known).sum()) / size, sure=sure,
        modularity=float(figures["modularity"][k]), conductance=conductance, silhouette=float(fit[own].sum()) / size,
        nearest=tuple((c, float(share[c] / share.sum().clamp(min=1e-12))) for c in order))


def newness(sure: float, conductance: float) -> float:
    r"""How likely a cluster is a class of its own: :math:`\bar P_u (1 - \phi / 2)`, its mean probability of the unknown class less up to
    half of it for edges that leave it (conductance :math:`\phi`)."""
    return sure * (1 - conductance / 2)


def separation(adjacency: sp.csr_array, cluster: np.ndarray, num_clusters: int) -> dict[str, np.ndarray]:
    r"""How separate clusters are in a graph, each ``[C]``: ``modularity`` :math:`e_c / m - (d_c / 2m)^2`, of which the sum is Newman's, and
    ``conductance`` :math:`\text{cut} / \min(d_c, 2m - d_c)`; 1 for a cluster without an edge.

    Args:
        adjacency: symmetric, without self-loops, ``[V, V]``.
        cluster: ``[V]``.
        num_clusters: :math:`C`.
    """
    member = sp.csr_array((np.ones(len(cluster)), (cluster, np.arange(len(cluster)))), shape=(num_clusters, len(cluster)))
    between = (member @ adjacency @ member.T).toarray()
    inside, ends = between.diagonal(), between.sum(1)
    volume = max(ends.sum(), 1.0)
    smaller = np.minimum(ends, volume - ends)
    conductance = np.where(smaller > 0, (ends - inside) / np.maximum(smaller, 1), np.where(ends > 0, 0.0, 1.0))
    return {"modularity": inside / volume - (ends / volume) ** 2, "conductance": conductance}


def _weighted(x: Sparse | Tensor) -> sp.csr_array | np.ndarray:
    """Scaled features; columns of words weighted by their inverse document frequency, rows again of length one."""
    matrix = (x.matrix if isinstance(x, Sparse) else x.cpu().numpy()).astype(np.float64)
    if (matrix.data if sp.issparse(matrix) else matrix).min(initial=0) < 0:
        return matrix
    present = np.asarray((matrix > 0).sum(0)).ravel()
    idf = np.log((1 + matrix.shape[0]) / (1 + present))
    matrix = sp.csr_array(matrix).multiply(idf).tocsr()
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(length, 1e-12)) @ matrix)

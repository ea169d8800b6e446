"""The clusters of a graph, those of known classes and those that no known class stands for.

K-means splits the nodes that the model predicts as unknown, and then every node goes to the nearest
centre, of these new clusters or of the nodes of a known class. So the model's threshold says where
to look but does not bound a cluster: it may hold nodes that the model calls known, and its share of
unknown ones says how many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.kmeans import split_unknown
from graphgym_srnc.own.discover.states import states


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster and its figures.

    Args:
        number: 1, 2, ... for new clusters, the likeliest new class first; 0 for a known class.
        known_class: the known class that it belongs to, or None.
        nodes: its nodes, the most typical first, ``[n]``.
        newness: how likely it is a class of its own: :math:`\\bar P_u (1 - \\phi / 2)`, its mean
            probability of the unknown class less up to half of it for edges that leave it.
        p_unknown: mean probability of the unknown class, :math:`\\bar P_u`.
        predicted_unknown: share of its nodes that the model predicts as unknown.
        modularity: what it adds to the modularity of the clustering.
        conductance: see :func:`separation`, :math:`\\phi`.
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
        state: what was clustered, ``[V, D]``.
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
        state: that of :func:`graphgym_srnc.own.discover.states.states`, if it is there.

    Raises:
        InputError: see :func:`check`.
    """
    check(posterior, num_clusters)
    label, num_known = posterior.argmax(1), posterior.size(1) - 1
    state = states(graph, posterior) if state is None else state
    split = split_unknown(label, num_known, state, num_clusters)
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
    """Refuse a posterior ``[V, N + 1]`` with nothing to discover, or a number that cannot be.

    Raises:
        InputError: the model predicts no node as unknown, or there are not more clusters than known
            classes, or too many for the unknown nodes.
    """
    num_known = posterior.size(1) - 1
    called = int((posterior.argmax(1) == num_known).sum())
    if not called:
        message = "this model predicts no node as unknown, so there is nothing to discover"
        raise InputError.plain("RUN", message, "That is right if every class has labels")
    if not num_known < num_clusters <= num_known + called:
        raise InputError(
            "--clusters",
            num_clusters,
            f"{num_known + 1} to {num_known + called}, since there are {num_known} "
            f"known classes and {called} nodes are predicted as unknown",
        )


def centres(state: Tensor, group: Tensor, count: int) -> Tensor:
    """Means of groups ``0 .. count - 1`` of states ``[V, D]``, ``[count, D]``; inf if empty."""
    sums = torch.zeros(count, state.size(1)).index_add_(0, group, state)
    size = torch.bincount(group, minlength=count)[:count, None]
    return torch.where(size > 0, sums / size.clamp(min=1), torch.inf)


def nearest(state: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    r"""The nearest centre of each node, and its simplified silhouette, both ``[V]``.

    That is :math:`(b - a) / \max(a, b)` with the distances :math:`a` to this centre and :math:`b`
    to the next one; the silhouette proper has mean distances to all nodes (Hruschka et al., 2004).

    Args:
        state: ``[V, D]``.
        centre: two or more, ``[C, D]``.
    """
    distance = torch.cdist(state, centre).nan_to_num(torch.inf, torch.inf)
    (a, b), (first, _) = (pair.unbind(1) for pair in distance.topk(2, dim=1, largest=False))
    return first, torch.where(b.isinf(), 1.0, (b - a) / b.clamp(min=1e-12))


def separation(
    adjacency: sp.csr_array, cluster: np.ndarray, num_clusters: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""Modularity and conductance of each cluster, both ``[C]``.

    Modularity is :math:`e_c / m - (d_c / 2m)^2`, of which the sum is Newman's. Conductance is
    :math:`\text{cut} / \min(d_c, 2m - d_c)`, the share of a cluster's ends of edges that belong to
    edges which leave it; 1 for a cluster without an edge.

    Args:
        adjacency: symmetric, without self-loops, ``[V, V]``.
        cluster: ``[V]``.
        num_clusters: :math:`C`.
    """
    entries = np.ones(len(cluster)), (cluster, np.arange(len(cluster)))
    member = sp.csr_array(entries, shape=(num_clusters, len(cluster)))
    between = (member @ adjacency @ member.T).toarray()
    inside, ends = between.diagonal(), between.sum(1)
    volume = max(ends.sum(), 1.0)
    smaller = np.minimum(ends, volume - ends)
    conductance = np.where(smaller > 0, (ends - inside) / np.maximum(smaller, 1), ends == 0)
    return inside / volume - (ends / volume) ** 2, conductance


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

"""Clusters of a graph: nodes by predicted class, and new clusters of those that are unlike them.

K-means splits the nodes that the model predicts as unknown, or if there are none, the least certain
ones. Those of them that are closer to a known class are in no new cluster. All other nodes are in
the cluster of their predicted class, so the sizes of clusters agree with the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.data.edges import SMALL, component_sizes
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover import candidates
from graphgym_srnc.own.discover.candidates import Seeds
from graphgym_srnc.own.discover.representation import kmeans, states
from graphgym_srnc.plots import embedding

ANCHORS = 1000  # nodes that t-SNE places, since its time is most of that of a page
CHANCE = 2.0  # links inside a cluster, in multiples of those by chance, below which it is mixed
LOOSE = 0.9  # cohesion of a mixed cluster, in multiples of the lowest one of a known class


@dataclass(frozen=True, eq=False)
class Cluster:
    r"""A cluster and its figures.

    Its newness, how likely it is a class of its own, is :math:`\bar P_u (1 - \phi / 2)`: its mean
    probability of the unknown class less up to half of it for edges that leave it. Of candidates
    :math:`P_u` is 1 less the probability of the most probable class.
    """

    name: str  # class that it belongs to, or the name that a user gave to a new cluster, or ""
    number: int  # 1, 2, ... for new clusters, the likeliest new class first; 0 for the others
    nodes: Tensor  # the most typical first, and those in small components last, [n]
    small: int  # number of its nodes in small components
    newness: float
    p_unknown: float  # mean probability of the unknown class, or mean doubt of candidates
    modularity: float  # contribution to the modularity of the clustering
    conductance: float  # see separation
    silhouette: float  # mean simplified silhouette
    cohesion: float  # length of the mean of the nodes' topics of length 1: 1 = all are alike
    lift: float  # share of edge ends whose edges stay inside, in multiples of that by chance
    nearest: tuple[tuple[int, float], ...]  # known classes by share of P(known), largest first
    is_mixed: bool = False  # whether its nodes are less alike than those of every known class
    parts: tuple[Tensor, ...] = ()  # its nodes by part, the largest part first; () = no parts


@dataclass(frozen=True, eq=False)
class Discovery:
    """All clusters of a graph."""

    state: Tensor  # the representation that was clustered, [V, D]
    posterior: Tensor  # of the model, [V, N + 1], the unknown class last
    seeds: Seeds  # the nodes that new clusters consist of
    cluster: Tensor  # [V], positions in ``every``
    typical: Tensor  # how typical each node is of its cluster, [V], from 0 to 1
    known: list[Cluster]  # nodes predicted as known classes
    new: list[Cluster]  # new clusters, the likeliest new class first
    rest: Cluster  # nodes predicted as unknown that are closer to a known class

    @property
    def every(self) -> list[Cluster]:
        """Clusters of known classes, then new ones, then the rest."""
        return [*self.known, *self.new, self.rest]

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


class Measures(NamedTuple):
    """Figures of all clusters by position, each ``[C]``, and of nodes, each ``[V]``."""

    modularity: np.ndarray
    conductance: np.ndarray
    lift: np.ndarray
    silhouette: Tensor  # of nodes
    typical: Tensor  # of nodes
    small: Tensor  # whether a node is in a small component
    topics: Tensor  # of nodes, of length 1, [V, D]


def check_number(num_new: int, seeds: Seeds) -> None:
    """Refuse a number of new clusters that the seeds cannot form.

    Raises:
        InputError: there are fewer seeds than new clusters.
    """
    if not 1 <= num_new <= len(seeds.nodes):
        what = "predicted as unknown" if seeds.predicted else "least like a known class"
        raise InputError("--new", num_new, f"1 to {len(seeds.nodes)}, the number of nodes {what}")


def find(
    graph: Data,
    posterior: Tensor,
    num_new: int,
    classes: Sequence[Any] | np.ndarray = (),
    state: Tensor | None = None,
    seeds: Seeds | None = None,
) -> Discovery:
    """Cluster a graph and measure the clusters.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        num_new: number of new clusters.
        classes: names of the known classes (default: their numbers).
        state: result of ``states``, if it is already computed.
        seeds: the nodes that new clusters consist of, if they are already chosen.

    Raises:
        InputError: see :func:`check_number`.
    """
    seeds = candidates.seeds(graph, posterior) if seeds is None else seeds
    check_number(num_new, seeds)
    state = states(graph, posterior, seeds.predicted) if state is None else state
    num_known = posterior.size(1) - 1
    group = kmeans(F.normalize(state[seeds.nodes], dim=1).numpy(), num_new).labels_
    cluster, distance = assign(state, posterior, seeds, seeds.nodes, group)
    total = num_known + num_new + 1
    measures = _measures(graph, posterior, state, seeds, cluster, distance, total)
    called = map(str, classes if len(classes) else range(num_known))
    names = [*list(called)[:num_known], *[""] * (num_new + 1)]
    every = [
        _cluster(name, (cluster == k).nonzero().view(-1), k, posterior, seeds, measures)
        for k, name in enumerate(names)
    ]
    # Seeds that are closer to a known class may leave a new cluster without nodes.
    new = [k for k in range(num_known, num_known + num_new) if len(every[k].nodes)]
    new.sort(key=lambda k: -every[k].newness)
    place = torch.full((total,), num_known + len(new))
    place[:num_known] = torch.arange(num_known)
    place[new] = torch.arange(num_known, num_known + len(new))
    known, rest = every[:num_known], every[-1]
    ranked = [
        replace(every[k], number=rank, is_mixed=_is_mixed(every[k], known))
        for rank, k in enumerate(new, 1)
    ]
    placed = place[cluster]
    return Discovery(state, posterior, seeds, placed, measures.typical, known, ranked, rest)


def assign(
    state: Tensor, posterior: Tensor, seeds: Seeds, drawn: Tensor, group: np.ndarray
) -> tuple[Tensor, Tensor]:
    """The cluster of each node, ``[V]``, and distances ``[V, C]`` to the centres of all clusters.

    Clusters are the known classes as predicted, the new ones of ``group``, and the rest: seeds that
    are closer to the centre of a known class. Such candidates return to their predicted class.
    """
    num_known, num_new = posterior.size(1) - 1, int(group.max()) + 1
    cluster = posterior[:, :num_known].argmax(1)
    known = torch.ones(len(cluster), dtype=torch.bool)
    known[seeds.nodes] = False
    centre = torch.cat(
        [
            centres(state[known], cluster[known], num_known),
            centres(state[drawn], torch.from_numpy(group).long(), num_new),
        ]
    )
    distance = torch.cdist(state, centre).nan_to_num(torch.inf, torch.inf)
    nearest = distance[seeds.nodes].argmin(1)
    is_new = nearest >= num_known
    rest = torch.full_like(nearest, num_known + num_new)
    if not seeds.predicted:
        rest = cluster[seeds.nodes]
    cluster[seeds.nodes] = torch.where(is_new, nearest, rest)
    return cluster, distance


def centres(state: Tensor, group: Tensor, count: int) -> Tensor:
    """Means of groups ``0 .. count - 1`` of states ``[V, D]``, ``[count, D]``; inf if empty."""
    sums = torch.zeros(count, state.size(1)).index_add_(0, group, state)
    size = torch.bincount(group, minlength=count)[:count, None]
    return torch.where(size > 0, sums / size.clamp(min=1), torch.inf)


def silhouette(distance: Tensor, cluster: Tensor) -> Tensor:
    r"""The simplified silhouette of each node, ``[V]``, by distances ``[V, C]`` to centres.

    That is :math:`(b - a) / \max(a, b)` with the distances :math:`a` to the centre of its own
    cluster and :math:`b` to the nearest other one. The silhouette proper uses mean distances to
    all nodes. Nodes of no cluster with a centre have 0.

    References:
        Hruschka et al. (ICTAI 2004).
    """
    has_centre = cluster < distance.size(1)
    own = cluster.clamp(max=distance.size(1) - 1)[:, None]
    a = distance.gather(1, own)[:, 0]
    b = distance.scatter(1, own, torch.inf).amin(1)
    value = (b - a) / torch.maximum(a, b).clamp(min=1e-12)
    value = torch.where(b.isinf(), 1.0, value)
    return torch.where(has_centre & a.isfinite(), value, 0.0)


def separation(
    adjacency: sp.csr_array, cluster: np.ndarray, num_clusters: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Modularity, conductance and lift of each cluster, all ``[C]``.

    Modularity is :math:`e_c / m - (d_c / 2m)^2`, whose sum is Newman's. Conductance is
    :math:`\text{cut} / \min(d_c, 2m - d_c)`, the share of a cluster's edge ends whose edges leave
    it; 1 for a cluster without edges. Lift is :math:`2 m \, e_c / d_c^2`, with :math:`e_c` edge
    ends inside: the share that stays inside, in multiples of that of random edges.

    Args:
        adjacency: symmetric, without self-loops, ``[V, V]``.
        cluster: ``[V]``.
        num_clusters: :math:`C`.
    """
    row, column = adjacency.nonzero()
    pairs = np.bincount(cluster[row] * num_clusters + cluster[column], minlength=num_clusters**2)
    between = pairs.reshape(num_clusters, num_clusters).astype(float)
    inside, ends = between.diagonal(), between.sum(1)
    volume = max(ends.sum(), 1.0)
    smaller = np.minimum(ends, volume - ends)
    conductance = np.where(smaller > 0, (ends - inside) / np.maximum(smaller, 1), ends == 0)
    modularity = inside / volume - (ends / volume) ** 2
    return modularity, conductance, inside * volume / np.maximum(ends, 1) ** 2


def _measures(
    graph: Data,
    posterior: Tensor,
    state: Tensor,
    seeds: Seeds,
    cluster: Tensor,
    distance: Tensor,
    total: int,
) -> Measures:
    """Figures of ``total`` clusters and of all nodes; see ``find`` and ``assign``."""
    adjacency = prepare(graph, "auto").adjacency("raw").matrix
    sizes = component_sizes(graph.edge_index.numpy(), graph.num_nodes)
    num_known = posterior.size(1) - 1
    own = torch.cat([posterior[:, :num_known], seeds.doubt[:, None]], 1)
    sure = own.gather(1, cluster.clamp(max=num_known)[:, None])[:, 0]
    return Measures(
        *separation(adjacency, cluster.numpy(), total),
        silhouette(distance, cluster),
        centrality(state, adjacency, sure, cluster, total),
        torch.from_numpy(sizes <= SMALL),
        F.normalize(state[:, : state.size(1) - num_known - 1], dim=1),
    )


def centrality(
    state: Tensor, adjacency: sp.csr_array, sure: Tensor, cluster: Tensor, total: int
) -> Tensor:
    """How typical each node is of its cluster, ``[V]``: the mean of three ranks from 0 to 1.

    They are those of its similarity to the mean of the cluster, of its links inside the cluster,
    and of the probability ``sure`` ``[V]`` that it belongs there.
    """
    unit = F.normalize(state, dim=1)
    mean = F.normalize(centres(unit, cluster, total).nan_to_num(0.0, 0.0), dim=1)
    similar = (unit * mean[cluster]).sum(1)
    row, column = adjacency.nonzero()
    stays = cluster.numpy()[row] == cluster.numpy()[column]
    links = np.bincount(row[stays], minlength=len(cluster))
    typical = np.zeros(len(cluster))
    for nodes in (np.flatnonzero(cluster.numpy() == k) for k in range(total)):
        for value in (similar.numpy(), links, sure.numpy()):
            typical[nodes] += rankdata(value[nodes].round(6)) / max(len(nodes), 1) / 3
    return torch.from_numpy(typical)


def _cluster(
    name: str, nodes: Tensor, k: int, posterior: Tensor, seeds: Seeds, measures: Measures
) -> Cluster:
    """The cluster of these ``nodes`` ``[n]`` at position ``k``, without its number."""
    size = max(len(nodes), 1)
    p_unknown = float(seeds.doubt[nodes].double().sum()) / size
    known = posterior[nodes].double()[:, :-1].sum(0)
    shares, order = known / known.sum().clamp(min=1e-12), (-known).argsort(stable=True)
    # Nodes in small components come last.
    rank = measures.typical[nodes] - 2 * measures.small[nodes]
    return Cluster(
        name,
        number=0,
        nodes=nodes[rank.argsort(descending=True, stable=True)],
        small=int(measures.small[nodes].sum()),
        newness=p_unknown * (1 - float(measures.conductance[k]) / 2),
        p_unknown=p_unknown,
        modularity=float(measures.modularity[k]),
        conductance=float(measures.conductance[k]),
        silhouette=float(measures.silhouette[nodes].sum()) / size,
        cohesion=float(measures.topics[nodes].sum(0).norm()) / size,
        lift=float(measures.lift[k]),
        nearest=tuple((c, float(shares[c])) for c in order.tolist()),
    )


def _is_mixed(cluster: Cluster, known: Sequence[Cluster]) -> bool:
    """Whether a new cluster's nodes are less alike than those of every known class.

    That is by their topics, or by their links if these are nearly as random ones.
    """
    present = [other for other in known if len(other.nodes) > SMALL]
    is_loose = all(cluster.cohesion < LOOSE * other.cohesion for other in present)
    is_unlinked = all(cluster.lift < min(CHANCE, other.lift) for other in present)
    return bool(present) and (is_loose or is_unlinked)


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

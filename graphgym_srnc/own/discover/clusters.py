"""Clusters of a graph: nodes by predicted class, and new clusters of those that are unlike them.

K-means splits the nodes that the model predicts as unknown. Those of them that are closer to a
known class are in no new cluster. If there are none, new clusters are groups with few labels; in a
graph without labels, k-means splits the least certain nodes. All other nodes are in the cluster of
their predicted class, so the sizes of clusters agree with the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Mapping, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
import torch
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.data.edges import SMALL, component_sizes
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import LEAST
from graphgym_srnc.methods.shared.label_scan import FewLabels
from graphgym_srnc.methods.shared.topics import by_group, kmeans
from graphgym_srnc.own.discover.candidates import Seeds
from graphgym_srnc.own.discover.representation import links
from graphgym_srnc.plots import embedding

PROJECTION = "tsne"  # of the map
ANCHORS = 1000  # nodes that t-SNE places, since its time is most of that of a page
CHANCE = 2.0  # links inside a cluster, in multiples of those by chance, below which it is mixed
LOOSE = 0.9  # cohesion of a mixed cluster, in multiples of the lowest one of a known class
UNUSUAL = 1.5  # share in small components of an unusual cluster, in multiples of known classes'
LEAST_CLARITY = 0.4  # below which few clusters are of one class
CLEAR = 0.6  # clarity from which at least 80 % of the nodes of most clusters are of one class


class Part(NamedTuple):
    """A part of a new cluster, see ``number.parts``."""

    number: str  # such as 1a
    nodes: Tensor  # in the order of the cluster, [n]
    small: int  # number of its nodes in small components
    name: str = ""  # the class that a user gave to it, or ""

    @property
    def reliable(self) -> Tensor:
        """Its nodes outside small components, or all if there are no others."""
        return self.nodes[: len(self.nodes) - self.small or None]


@dataclass(frozen=True, eq=False)
class Cluster:
    r"""A cluster and its figures.

    Its newness, how likely it is a class of its own, is :math:`\bar P_u (1 - \phi / 2)`: its mean
    probability of the unknown class less up to half of it for edges that leave it. Of candidates
    :math:`P_u` is the measure of ``Seeds``.
    """

    name: str  # class that it belongs to, or the name that a user gave to a new cluster, or ""
    number: int  # 1, 2, ... for new clusters, the likeliest new class first; 0 for the others
    nodes: Tensor  # the most typical first, and those in small components last, [n]
    small: int  # number of its nodes in small components
    newness: float
    p_unknown: float  # mean probability of the unknown class, or mean doubt of candidates
    modularity: float  # contribution to the modularity of the clustering
    conductance: float  # see separation
    cohesion: float  # length of the mean of the nodes' topics of length 1: 1 = all are alike
    lift: float  # share of edge ends whose edges stay inside, in multiples of that by chance
    nearest: int  # the most probable known class
    nearest_share: float  # its share of the probability of all known classes
    is_mixed: bool = False  # whether its nodes are less alike than those of every known class
    has_few_links: bool = False  # whether more are in small components than of each known class
    parts: Sequence[Part] = ()  # the largest first

    @property
    def reliable(self) -> Tensor:
        """Its nodes, without those in small components if it has unusually many of them."""
        if not self.has_few_links:
            return self.nodes
        return self.nodes[: len(self.nodes) - self.small or None]

    @property
    def clarity(self) -> float:
        """How likely its nodes are of one class: ``p_unknown`` times ``cohesion``, from 0 to 1."""
        return self.p_unknown * self.cohesion

    @property
    def weakness(self) -> str:
        """Why a new cluster may be no class; "" if nothing says so."""
        if self.has_few_links and 2 * self.small > len(self.nodes):
            return f"most of its nodes are in components of at most {SMALL} nodes"
        if self.is_mixed and self.clarity < CLEAR:
            return "its nodes are less alike than those of each known class"
        if self.clarity < LEAST_CLARITY:
            return f"the model is unsure of its nodes (clarity below {LEAST_CLARITY:g})"
        return ""

    @property
    def is_clear(self) -> bool:
        """Whether a new cluster is likely of one class."""
        return not self.weakness and self.clarity >= CLEAR


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
    also: Sequence[FewLabels] = ()  # groups predicted as known classes that may be new ones

    @property
    def proposed(self) -> list[Part | Cluster | FewLabels]:
        """All that may be a new class and have a name: parts of new clusters, these, and groups
        with few labels."""
        return [*(part for new in self.new for part in new.parts), *self.new, *self.also]

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

    @property
    def names(self) -> dict[str, str]:
        """Names by number of those that have one, such as ``{"1": "rust", "2a": "go"}``."""
        return {str(one.number): one.name for one in self.proposed if one.name}

    def named(self, names: Mapping[str, str]) -> Discovery:
        """The same clusters; new ones, their parts and groups with few labels have names by number.

        Raises:
            InputError: there is no new cluster, part or group with such a number.
        """
        parts = [part.number for new in self.new for part in new.parts]
        numbers = [str(k) for k in range(1, len(self.new) + len(self.also) + 1)]
        for number in names:
            if number not in numbers + parts:
                allowed = f"numbers of new clusters and groups, from 1 to {len(numbers)}"
                if parts:
                    allowed += f", or of parts: {', '.join(parts)}"
                raise InputError("names", number, allowed)
        new = []
        for cluster in self.new:
            own = [part._replace(name=names.get(part.number, "")) for part in cluster.parts]
            new.append(replace(cluster, name=names.get(str(cluster.number), ""), parts=own))
        also = [group._replace(name=names.get(str(group.number), "")) for group in self.also]
        return replace(self, new=new, also=also)


def find(
    graph: Data,
    posterior: Tensor,
    state: Tensor,
    seeds: Seeds,
    cluster: Tensor,
    num_new: int,
    classes: Sequence[str],
) -> Discovery:
    """Measure the clusters of a graph, and sort those that have nodes.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        state: representation of the nodes, ``[V, D]``.
        seeds: the nodes that new clusters consist of.
        cluster, num_new: cluster of each node, ``[V]``, and number of new clusters, see
            :func:`of_means` and :func:`of_groups`.
        classes: names of the known classes.
    """
    num_known = len(classes)
    count = num_known + num_new + 1  # with the rest
    adjacency = links(graph)
    own = torch.cat([posterior[:, :num_known], seeds.doubt[:, None]], 1)
    sure = own.gather(1, cluster.clamp(max=num_known)[:, None])[:, 0]
    typical = centrality(state, adjacency, sure, cluster)
    is_small = component_sizes(graph.edge_index.numpy(), graph.num_nodes) <= SMALL

    group = cluster.numpy()
    size = np.bincount(group, minlength=count)
    figures = _figures(posterior, state, seeds, group, size, adjacency)
    figures["small"] = np.bincount(group[is_small], minlength=count)
    small_share = figures["small"] / size.clip(min=1)
    usual = small_share[:num_known][size[:num_known] > SMALL]
    few = UNUSUAL * usual.max() if len(usual) else np.inf
    figures["has_few_links"] = small_share > few
    # Seeds that are closer to a known class may leave a new cluster without nodes.
    new = [k for k in range(num_known, count - 1) if size[k]]
    if not seeds.groups:  # which are in order
        new.sort(key=lambda k: -figures["newness"][k])
    order = np.lexsort((-typical.numpy(), is_small))
    placed = np.zeros(len(group), dtype=int)
    every = []
    for place, k in enumerate([*range(num_known), *new, count - 1]):
        nodes = torch.from_numpy(order[group[order] == k])
        placed[nodes] = place
        number = place - num_known + 1 if k in new else 0
        name = classes[k] if k < num_known else ""
        own_figures = {key: values[k].item() for key, values in figures.items()}
        every.append(Cluster(name, number, nodes, **own_figures))
    return Discovery(
        state,
        posterior,
        seeds,
        cluster=torch.from_numpy(placed),
        typical=typical,
        known=every[:num_known],
        new=every[num_known:-1],
        rest=every[-1],
    )


def _figures(
    posterior: Tensor,
    state: Tensor,
    seeds: Seeds,
    group: np.ndarray,
    size: np.ndarray,
    adjacency: sp.csr_array,
) -> dict[str, np.ndarray]:
    """Figures of clusters by name, ``[C]``; ``group`` is what ``assign`` returns."""
    num_known = posterior.size(1) - 1

    def mean(values: Tensor) -> np.ndarray:
        return (by_group(values.numpy(), group, len(size)).T / size.clip(min=1)).T

    modularity, conductance, lift = separation(adjacency, group, len(size))
    p_unknown = mean(seeds.doubt)
    known = mean(posterior[:, :num_known])
    cohesion = np.linalg.norm(mean(F.normalize(state[:, : -num_known - 1], dim=1)), axis=1)
    usual = np.flatnonzero(size[:num_known] > SMALL)
    is_mixed = size < 0
    if len(usual):
        is_mixed = cohesion < LOOSE * cohesion[usual].min()
        is_mixed |= lift < lift[usual].clip(max=CHANCE).min()
    return {
        "newness": p_unknown * (1 - conductance / 2),
        "p_unknown": p_unknown,
        "modularity": modularity,
        "conductance": conductance,
        "cohesion": cohesion,
        "lift": lift,
        "nearest": known.argmax(1),
        "nearest_share": known.max(1) / known.sum(1).clip(min=1e-12),
        "is_mixed": is_mixed,
    }


def of_means(state: Tensor, posterior: Tensor, seeds: Seeds, wanted: int) -> tuple[Tensor, int]:
    """The cluster of each node, ``[V]``, and the number of new clusters, by k-means of the seeds.

    There are at most as many as are wanted, fewer if seeds coincide. See :func:`assign`.
    """
    group = kmeans(F.normalize(state[seeds.nodes], dim=1).numpy(), wanted).labels_
    return assign(state, posterior, seeds, seeds.nodes, group), int(group.max()) + 1


def of_groups(posterior: Tensor, seeds: Seeds) -> tuple[Tensor, int]:
    """The cluster of each node, ``[V]``, and the number of new clusters: the groups of the seeds.

    All other nodes are in their predicted class.
    """
    num_known = posterior.size(1) - 1
    cluster = posterior[:, :num_known].argmax(1)
    for number, group in enumerate(seeds.groups, num_known):
        cluster[group.nodes] = number
    return cluster, len(seeds.groups)


def assign(
    state: Tensor, posterior: Tensor, seeds: Seeds, drawn: Tensor, group: np.ndarray
) -> Tensor:
    """The cluster of each node, ``[V]``.

    Clusters are the known classes as predicted, the new ones of ``group``, and the rest: seeds that
    are closer to the centre of a known class. Such candidates return to their predicted class.

    Args:
        state: representation of the nodes, ``[V, D]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        seeds: the nodes that new clusters consist of.
        drawn: those of them that are in a ``group``, ``[n]``.
        group: of the drawn seeds, ``[n]``.
    """
    num_known = posterior.size(1) - 1
    outside = num_known + int(group.max()) + 1
    predicted = posterior[:, :num_known].argmax(1)
    first = predicted.index_fill(0, seeds.nodes, outside)
    first[drawn] = torch.from_numpy(group).long() + num_known
    centre = centres(state, first, outside + 1)[:outside]
    distance = torch.cdist(state[seeds.nodes], centre).nan_to_num(torch.inf, torch.inf)
    nearest = distance.argmin(1)
    rest = torch.tensor(outside) if seeds.predicted else predicted[seeds.nodes]
    return predicted.index_copy(0, seeds.nodes, torch.where(nearest < num_known, rest, nearest))


def centres(state: Tensor, group: Tensor, count: int) -> Tensor:
    """Means of groups ``0 .. count - 1`` of states ``[V, D]``, ``[count, D]``; inf if empty."""
    sums = torch.zeros(count, state.size(1)).index_add_(0, group, state)
    size = torch.bincount(group, minlength=count)[:, None]
    return torch.where(size > 0, sums / size.clamp(min=1), torch.inf)


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
    edges = adjacency.tocoo()
    pairs = cluster[edges.row] * num_clusters + cluster[edges.col]
    between = np.bincount(pairs, edges.data, num_clusters**2).reshape(num_clusters, num_clusters)
    inside = between.diagonal()
    ends = between.sum(1)
    volume = max(ends.sum(), LEAST)
    smaller = np.minimum(ends, volume - ends)
    conductance = np.where(smaller > 0, (ends - inside) / np.maximum(smaller, LEAST), ends == 0)
    modularity = inside / volume - (ends / volume) ** 2
    return modularity, conductance, inside * volume / np.maximum(ends, LEAST) ** 2


def centrality(state: Tensor, adjacency: sp.csr_array, sure: Tensor, cluster: Tensor) -> Tensor:
    """How typical each node is of its cluster, ``[V]``: the mean of three ranks from 0 to 1.

    They are those of its similarity to the mean of the cluster, of its links inside the cluster,
    and of the probability ``sure`` ``[V]`` that it belongs there.
    """
    group = cluster.numpy()
    unit = F.normalize(state, dim=1)
    mean = F.normalize(centres(unit, cluster, int(group.max()) + 1).nan_to_num(0.0, 0.0), dim=1)
    every = adjacency.tocoo()
    stays = group[every.row] == group[every.col]
    figures = {
        "similar": (unit * mean[cluster]).sum(1).numpy(),
        "links": np.bincount(every.row[stays], every.data[stays], len(group)),
        "sure": sure.numpy(),
    }
    ranks = pandas.DataFrame(figures).round(6).groupby(group).rank(pct=True)
    return torch.tensor(sum(ranks[name] / 3 for name in figures).to_numpy())


@lru_cache(maxsize=1)
def layout(discovery: Discovery) -> np.ndarray:
    """Position ``[V, 2]`` of each node: t-SNE of at most ``ANCHORS`` nodes; each of the others
    lies among the three of these nodes that are most similar to it, at a small random distance."""
    state = discovery.state.numpy()
    shown = embedding.sample(len(state), ANCHORS)
    placed = embedding.map_2d(state[shown], PROJECTION)
    near = KNeighborsRegressor(min(3, len(shown)), weights="distance").fit(state[shown], placed)
    points = near.predict(state)
    # Nodes among the same three do not hide each other.
    gap = 0.0
    if len(placed) > 2:
        gap = np.median(NearestNeighbors(n_neighbors=2).fit(placed).kneighbors()[0])
    points += np.random.default_rng(0).normal(scale=gap / 2, size=points.shape)
    points[shown] = placed
    return points

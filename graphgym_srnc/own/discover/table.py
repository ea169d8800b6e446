"""The new clusters in words: names of nodes and features, typical words, text and CSV."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.core import text
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.edges import SMALL
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.clusters import (
    Cluster,
    Discovery,
    are_words,
    features,
    suggested,
)

LONGEST = 160  # maximum length of a node's line
SHORT = 16  # nodes with shorter lines, such as ids, are shown on one line
SHARED = 0.3  # share of common words from which two clusters may be one class
NEAREST = 18  # maximum length of the name of the nearest known class
TOP = 10  # number of words and nodes shown for a cluster
EVEN = 0.01  # relative difference of modularity below which numbers of clusters fit equally well
# Weight of the whole graph's counts as a prior; the larger, the more often a word must occur.
PRIOR = 0.1
# Figures of a cluster, with their formats in print.
FIGURES = {
    "newness": ".2f",
    "p_unknown": ".2f",
    "predicted_unknown": ".0%",
    "modularity": ".3f",
    "conductance": ".2f",
    "silhouette": ".2f",
}

HEADS = "cluster,nodes,newness,P(unknown),nearest known class".split(",")
SMALL_HEAD = "in small components"
ON_SMALL = (
    f"{SMALL_HEAD}: share of nodes in components of at most {SMALL} nodes, where models are less"
    " accurate"
)


class Row(NamedTuple):
    """A cluster in words."""

    cluster: Cluster
    nearest: str  # the known class with the highest probability, and its probability
    words: list[str]  # its typical words
    nodes: list[str]  # some of its nodes, see ``shown``
    twins: list[int]  # new clusters that share a third of these words and may be the same class

    @property
    def title(self) -> str:
        """Its number if it is new, and its name if it has one."""
        number = str(self.cluster.number or "")
        return ", ".join(filter(None, [number, plain(self.cluster.name)]))

    @property
    def size(self) -> str:
        """Its number of nodes."""
        return f"{len(self.cluster.nodes):,}"

    @property
    def small(self) -> str:
        """Share of its nodes that are in small components."""
        share = self.cluster.small / max(len(self.cluster.nodes), 1)
        return f"{share:.0%}".replace("%", " %")

    @property
    def is_mixed(self) -> bool:
        """Whether most nodes of a new cluster without a name are predicted as a known class."""
        cluster = self.cluster
        return cluster.number > 0 and not cluster.name and cluster.predicted_unknown < 0.5

    @property
    def figures(self) -> dict[str, str]:
        """Its figures in print."""
        return {
            name: format(getattr(self.cluster, name), form).replace("%", " %")
            for name, form in FIGURES.items()
        }


def rows(discovery: Discovery, graph: Data, names: Names) -> list[Row]:
    """All clusters in words: those of known classes, then the likeliest new class first.

    Args:
        discovery: the clusters.
        graph: with ``x`` ``[V, F]``.
        names: of nodes and feature columns.
    """
    groups = discovery.cluster.numpy()
    words = distinguishing(features(prepare(graph, "none").x), groups, len(discovery.every))
    result = []
    for cluster, own in zip(discovery.every, words):
        (best, share), *_ = cluster.nearest
        twins = [
            other.number
            for other, theirs in zip(discovery.new, words[len(discovery.known) :])
            if cluster.number not in (0, other.number)
            and len({*own} & {*theirs}) >= max(SHARED * min(len(own), len(theirs)), 1)
        ]
        nearest = f"{text.short(discovery.classes[best], NEAREST)} {share:.2f}"
        nodes = [node_name(names, node) for node in shown(cluster)]
        result.append(Row(cluster, nearest, [column_name(names, w) for w in own], nodes, twins))
    return result


def shown(cluster: Cluster) -> list[int]:
    """At most ``TOP`` nodes, from the most to the least typical at equal distances.

    The most typical nodes alone would hide that a cluster mixes topics. Nodes in small components
    are left out if there are others.
    """
    nodes = cluster.nodes[: len(cluster.nodes) - cluster.small or None].tolist()
    return nodes[:: -(-len(nodes) // TOP) or 1]


def to_text(rows: Sequence[Row], merge: str = "") -> str:
    """The new clusters: a table, then the words and some nodes of each."""
    new = [row for row in rows if row.cluster.number]
    is_small = any(row.cluster.small for row in new)
    lines = [
        [str(row.cluster.number), row.size, row.figures["newness"], row.figures["p_unknown"]]
        + [row.nearest, *[row.small] * is_small]
        for row in new
    ]
    heads = [*HEADS, *[SMALL_HEAD] * is_small]
    details = []
    for row in new:
        details.append(f"\ncluster {row.title}: {', '.join(row.words) or 'no typical word'}")
        ids_only = all(len(node) < SHORT for node in row.nodes)
        details += [f"  {node}" for node in ([", ".join(row.nodes)] if ids_only else row.nodes)]
    for group, command in merges(new, merge).items():
        hint = " To merge them, give them one name:" * bool(command)
        details.append(f"\nClusters {group} share many words: perhaps one class.{hint}")
        details += [f"  {command}"] * bool(command)
    meaning = "newness: P(unknown), reduced for links that leave the cluster"
    meaning += f"\n{ON_SMALL}" * is_small
    return "\n".join([text.aligned([heads, *lines]) + meaning, *details])


def on_unknown(discovery: Discovery) -> str:
    """How many nodes the model predicts as unknown, and how many the new clusters contain."""
    unknown, new = (part >= len(discovery.known) for part in (discovery.label, discovery.cluster))
    clusters = text.counted(len(discovery.new), "new cluster")
    said = (
        f"The model predicts {int(unknown.sum()):,} of {len(new):,} nodes as unknown."
        f" {int((unknown & new).sum()):,} of them are in {clusters}"
    )
    if rest := int((unknown & ~new).sum()):
        said += f"; the other {rest:,} are closer to a known class"
    if others := int((new & ~unknown).sum()):
        nodes = text.counted(others, "node")
        said += f". The new clusters also contain {nodes} predicted as a known class"
    return f"{said}."


def merges(rows: Sequence[Row], command: str) -> dict[str, str]:
    """The numbers of new clusters that share words, and the command that gives them one name.

    ``command`` is how it begins; without one there is none.
    """
    found = {}
    for row in (row for row in rows if row.twins and row.cluster.number < row.twins[0]):
        group = [row.cluster.number, *row.twins]
        named = "".join(f" --name {number}=NAME" for number in group)
        words = f"{command}{named} --labels-out NEXT" if command else ""
        found[text.listed([*map(str, group)])] = words
    return found


def next_number(modularity: Mapping[int, float], used: int) -> int:
    """The next number of clusters after the ``used`` one, if possible one that fits as well as the
    suggested one or better."""
    least = modularity[suggested(modularity)]
    near = (count for count in sorted(modularity) if modularity[count] >= least and count > used)
    return next(near, used + 1)


def on_number(modularity: Mapping[int, float], known: int, used: int) -> str:
    """Which numbers of clusters the modularity suggests, and what to try after the ``used`` one.

    ``known`` of the clusters are known classes.
    """
    best = suggested(modularity)
    least = (1 - EVEN) * max(modularity.values())
    even = [count for count in sorted(modularity) if modularity[count] >= least]
    new = f"{text.counted(best - known, 'new cluster')} ({best} with the known classes)"
    said = f"The links suggest {new}."
    if len(even) > 1:
        numbers = text.ranges([count - known for count in even])
        said = f"The links fit {numbers} new clusters about equally well (modularity within"
        said += f" {100 * EVEN:.0f} %); the default is {new}."
    more = next_number(modularity, used)
    said += f" If a cluster mixes topics, take more, such as --clusters {more}:"
    return f"{said} you can give two clusters one name, but you cannot split a cluster."


def left_out(rows: Sequence[Row]) -> str:
    """Which new clusters the command that names clusters leaves out, and why; empty = none."""
    numbers = [str(row.cluster.number) for row in rows if row.is_mixed]
    why = "most of the nodes are predicted as a known class"
    return f"left out: {text.listed(numbers)}, since {why}" if numbers else ""


def on_split(discovery: Discovery, finer: Discovery, words: Sequence[Row]) -> str:
    """Which new cluster ``finer`` clusters, with ``words``, split most evenly, and into what."""
    known = len(discovery.known)
    shared = np.zeros((len(discovery.every), len(finer.every)), dtype=int)
    np.add.at(shared, (discovery.cluster.numpy(), finer.cluster.numpy()), 1)
    shared = shared[known:, known:]
    if shared.shape[1] < 2:
        return ""
    split = np.sort(shared, 1)[:, -2].argmax()
    parts = np.argsort(-shared[split], kind="stable")[:2]
    counts = " and ".join(f"{shared[split, part]:,}" for part in parts)
    lists = " | ".join(", ".join(words[known + part].words[:4]) for part in parts)
    whole = f"cluster {split + 1} ({len(discovery.new[split].nodes):,} nodes)"
    return f"With {len(finer.every)} clusters, {whole} splits into {counts} nodes: {lists}."


def to_csv(rows: Sequence[Row]) -> str:
    """A line per new cluster, with figures in full precision."""
    ends = ["in_small_components", "nearest_known_classes", "words", "typical_nodes", "name"]
    head = ["cluster", "nodes", *FIGURES, *ends]
    lines = []
    for row in (row for row in rows if row.cluster.number):
        values = [getattr(row.cluster, figure) for figure in (*FIGURES, "small")]
        lists = " | ".join(row.words), " | ".join(row.nodes)
        size = len(row.cluster.nodes)
        lines.append([row.cluster.number, size, *values, row.nearest, *lists, row.cluster.name])
    return text.to_csv([head, *lines])


def of_nodes(
    discovery: Discovery, names: Names, points: np.ndarray | None = None
) -> dict[str, list[Any]]:
    """Columns of a table of all nodes by name; ``points`` ``[V, 2]`` are their positions."""
    groups = [discovery.every[k] for k in discovery.cluster.tolist()]
    given: dict[str, Any] = {"id": names.ids, "text": names.texts}
    if points is not None:
        given |= {"x": points[:, 0].tolist(), "y": points[:, 1].tolist()}
    return {
        "node": list(range(len(groups))),
        **{column: list(values) for column, values in given.items() if values is not None},
        "class": [[*discovery.classes, "unknown"][k] for k in discovery.label.tolist()],
        "p_unknown": discovery.posterior[:, -1].tolist(),
        "cluster": [cluster.number for cluster in groups],
        "cluster_name": [cluster.name for cluster in groups],
        "newness": [cluster.newness for cluster in groups],
        "typical": discovery.typical.tolist(),
    }


def node_name(names: Names, node: int) -> str:
    """The id and the text of a node on one line."""
    id = names.ids[node] if names.ids is not None else f"node {node}"
    own = plain(names.texts[node]) if names.texts is not None else ""
    return text.short(own if own.startswith(id) else f"{id}: {own}" if own else id, LONGEST)


def column_name(names: Names, column: int) -> str:
    """The word that a feature column stands for."""
    return plain(names.words[column])[:40] if names.words is not None else f"feature {column}"


def distinguishing(
    x: sp.csr_array | np.ndarray, group: np.ndarray, num_groups: int, most: int = TOP
) -> list[list[int]]:
    """The typical columns of each group, those with :math:`z` above 2, the largest first.

    Words count once per node (:func:`log_odds`); other features are compared by Welch's t.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        num_groups: number of groups.
        most: maximum number of columns per group.
    """
    found = []
    is_words, total = are_words(x), np.asarray((x > 0).sum(0)).ravel()
    for number in range(num_groups):
        inside, outside = x[group == number], x[group != number]
        if not inside.shape[0] or not outside.shape[0]:
            z = np.zeros(x.shape[1])
        elif is_words:
            count = np.asarray((inside > 0).sum(0)).ravel()
            z = log_odds(count, total - count, PRIOR * np.maximum(total, 1))
        else:
            a, b = (part.toarray() if sp.issparse(part) else part for part in (inside, outside))
            error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
            z = (a.mean(0) - b.mean(0)) / np.maximum(error, 1e-12)
        best = np.argsort(-z, kind="stable")[:most]
        found.append(best[z[best] > 2].tolist())
    return found


def log_odds(counts: np.ndarray, others: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""How much more a word is used in one group than in the rest, in standard errors.

    .. math:: z_w = \frac{\delta_w}{\sqrt{1 / a_w + 1 / b_w}}, \quad
              \delta_w = \ln \frac{a_w}{\sum_v a_v - a_w} - \ln \frac{b_w}{\sum_v b_v - b_w}, \quad
              a = y + \alpha, \ b = y' + \alpha

    Args:
        counts: :math:`y`, how often each word occurs in the group, ``[F]``.
        others: :math:`y'`, the same in the rest, ``[F]``.
        prior: :math:`\alpha`, above 0, ``[F]``.

    Returns:
        :math:`z`, ``[F]``.

    References:
        Weighted log-odds with an informative Dirichlet prior (Monroe, Colaresi and Quinn, Political
        Analysis 2008).
    """
    a, b = counts + prior, others + prior
    odds = [np.log(c / np.maximum(c.sum() - c, 1e-12)) for c in (a, b)]
    return (odds[0] - odds[1]) / np.sqrt(1 / a + 1 / b)

"""The new clusters in words: names of nodes and features, typical words, text and CSV."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.core import text
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.edges import SMALL
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.candidates import DOUBT, MISSING, P_UNKNOWN
from graphgym_srnc.own.discover.clusters import Cluster, Discovery
from graphgym_srnc.own.discover.number import EVEN, Fit, suggested
from graphgym_srnc.own.discover.representation import are_words

LONGEST = 160  # maximum length of a node's line
SHORT = 16  # nodes with shorter lines, such as ids, are shown on one line
SHARED = 0.3  # share of common words from which two clusters may be one class
NEAREST = 18  # maximum length of the name of the nearest known class
TOP = 10  # number of words shown for a cluster
TYPICAL, OTHERS = 5, 5  # number of typical and of other nodes shown for a cluster
PART_WORDS = 5  # number of words shown for a part of a cluster
# Weight of the whole graph's counts as a prior; the larger, the more often a word must occur.
PRIOR = 0.1
LEAST_Z = 2.0  # z of a typical word
# Figures of a cluster, with their formats in print.
FIGURES = {
    "newness": ".2f",
    "p_unknown": ".2f",
    "modularity": ".3f",
    "conductance": ".2f",
    "silhouette": ".2f",
    "cohesion": ".2f",
    "lift": ".1f",
}

MEANINGS = {
    P_UNKNOWN: "P(unknown): mean probability that a node of the cluster is of no known class",
    MISSING: "missing labels: share of the labels that are missing among similar nodes, if those of"
    " each class were drawn at random",
    DOUBT: "doubt: 1 less the probability of the most probable known class, mean of the nodes",
}
SMALL_HEAD = "in small components"
ON_SMALL = (
    f"{SMALL_HEAD}: share of nodes in components of at most {SMALL} nodes, where models are less"
    " accurate"
)


class Shown(NamedTuple):
    """A node as it is shown: its number, id, title, and the rest of its text without both."""

    node: int
    id: str
    title: str
    text: str

    @property
    def line(self) -> str:
        """All of it on one line; the id only if the title does not repeat it."""
        head = self.title if not self.title or _same(self.title, self.id) else ""
        head = head or ": ".join(filter(None, [self.id, self.title]))
        return text.short(": ".join(filter(None, [head, self.text])), LONGEST)


class Part(NamedTuple):
    """A part of a cluster in words."""

    letter: str
    size: int
    words: list[str]
    example: Shown


class Row(NamedTuple):
    """A cluster in words."""

    cluster: Cluster
    nearest: str  # the known class with the highest probability, and its probability
    words: list[str]  # its typical words
    typical: list[Shown]  # its most typical nodes
    others: list[Shown]  # others of its nodes, see ``shown``
    twins: list[int]  # new clusters that share a third of these words and may be the same class
    parts: list[Part]  # see ``number.parts``

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
    def leftover(self) -> str:
        """Why a new cluster without a name is not proposed as a class; "" if it is."""
        cluster = self.cluster
        if not cluster.number or cluster.name:
            return ""
        if 2 * cluster.small > len(cluster.nodes):
            return f"most of its nodes are in components of at most {SMALL} nodes"
        if cluster.is_mixed:
            return "its nodes are less alike than those of each known class"
        return ""

    @property
    def figures(self) -> dict[str, str]:
        """Its figures in print."""
        return {
            name: format(getattr(self.cluster, name), form).replace("%", " %")
            for name, form in FIGURES.items()
        }


def rows(discovery: Discovery, x: sp.csr_array | np.ndarray, names: Names) -> list[Row]:
    """All clusters in words: those of known classes, then the likeliest new class first.

    Args:
        discovery: the clusters.
        x: features, ``[V, F]``.
        names: of nodes and feature columns.
    """
    words = distinguishing(x, discovery.cluster.numpy(), len(discovery.every))
    result = []
    for cluster, own in zip(discovery.every, words):
        (best, share), *_ = cluster.nearest
        nearest = f"{text.short(discovery.classes[best], NEAREST)} {share:.2f}"
        typical, others = ([shown_node(names, node) for node in nodes] for nodes in shown(cluster))
        called = [column_name(names, word) for word in own]
        twins = _twins(cluster, words, discovery)
        made = _parts(cluster, x, names)
        result.append(Row(cluster, nearest, called, typical, others, twins, made))
    return result


def _twins(cluster: Cluster, words: Sequence[Sequence[int]], discovery: Discovery) -> list[int]:
    """Numbers of other new clusters that share a third of its words."""
    if not cluster.number:
        return []
    first = len(discovery.known) - 1
    own = {*words[first + cluster.number]}
    found = []
    for other in (new for new in discovery.new if new.number != cluster.number):
        theirs = {*words[first + other.number]}
        if len(own & theirs) >= max(SHARED * min(len(own), len(theirs)), 1):
            found.append(other.number)
    return found


def _parts(cluster: Cluster, x: sp.csr_array | np.ndarray, names: Names) -> list[Part]:
    """The parts of a cluster, with the words that set each apart from the others."""
    if not cluster.parts:
        return []
    rank = {node: place for place, node in enumerate(cluster.nodes.tolist())}
    group = np.repeat(np.arange(len(cluster.parts)), [len(part) for part in cluster.parts])
    nodes = np.concatenate([part.numpy() for part in cluster.parts])
    words = distinguishing(x[nodes], group, len(cluster.parts), PART_WORDS)
    found = []
    for place, (part, own) in enumerate(zip(cluster.parts, words)):
        example = shown_node(names, min(part.tolist(), key=rank.__getitem__))
        called = [column_name(names, word) for word in own]
        found.append(Part("abcdefgh"[place], len(part), called, example))
    return found


def shown(cluster: Cluster) -> tuple[list[int], list[int]]:
    """At most ``TYPICAL`` most typical nodes, and ``OTHERS`` of the rest at equal distances.

    The most typical nodes alone would hide that a cluster mixes topics. Nodes in small components
    are left out if there are others.
    """
    nodes = cluster.nodes[: len(cluster.nodes) - cluster.small or None].tolist()
    rest = nodes[TYPICAL:]
    return nodes[:TYPICAL], rest[:: -(-len(rest) // OTHERS) or 1]


def to_text(rows: Sequence[Row], head: str = P_UNKNOWN, merge: str = "") -> str:
    """The new clusters: a table, then the words and some nodes of each.

    ``head`` is the name of their mean P(unknown), and ``merge`` how a command that names begins.
    """
    new = [row for row in rows if row.cluster.number]
    is_small = any(row.cluster.small for row in new)
    lines = [["cluster", "nodes", "newness", head, "nearest known class"]]
    for row in new:
        figures = [row.size, row.figures["newness"], row.figures["p_unknown"], row.nearest]
        lines.append([str(row.cluster.number), *figures])
    if is_small:
        for line, cell in zip(lines, [SMALL_HEAD, *[row.small for row in new]]):
            line.append(cell)
    details = [line for row in new for line in _details(row)]
    for group, command in merges(new, merge).items():
        hint = " To merge them, give them one name:" if command else ""
        details.append(f"\nClusters {group} share many words: perhaps one class.{hint}")
        if command:
            details.append(f"  {command}")
    meaning = [f"newness: {head}, reduced for links that leave the cluster", MEANINGS[head]]
    if is_small:
        meaning.append(ON_SMALL)
    return text.aligned(lines) + "\n".join([*meaning, *details])


def _details(row: Row) -> list[str]:
    """Words, nodes and parts of a new cluster, a line each."""
    lines = [f"\ncluster {row.title}: {', '.join(row.words) or 'no typical word'}"]
    if row.leftover:
        lines.append(f"  leftover: {row.leftover}")
    nodes = [node.line for node in (*row.typical, *row.others)]
    if all(len(node) < SHORT for node in nodes):
        nodes = [", ".join(nodes)]
    lines += [f"  {node}" for node in nodes]
    for part in row.parts:
        words = ", ".join(part.words) or "no typical word"
        lines.append(f"  part {row.cluster.number}{part.letter}, {part.size:,} nodes: {words}")
    return lines


def on_seeds(discovery: Discovery) -> str:
    """How many nodes may be of new classes, and how many of them the new clusters contain."""
    seeds, inside = discovery.seeds, sum(len(new.nodes) for new in discovery.new)
    total, every = len(seeds.nodes), len(discovery.cluster)
    clusters = text.counted(len(discovery.new), "new cluster" if seeds.predicted else "candidate")
    said = f"The model predicts {total:,} of {every:,} nodes as unknown. {inside:,} of them form"
    if not seeds.predicted:
        why = "around which most labels are missing"
        if seeds.measure == DOUBT:
            why = "whose class is least certain"
        said = (
            f"The model predicts no node as unknown. The {total:,} nodes ({100 * seeds.share:.0f} %"
            f" of all) {why} are examined. {inside:,} of them form"
        )
    said += f" {clusters}"
    if rest := total - inside:
        are = "is" if rest == 1 else "are"
        said += f"; the other {rest:,} {are} closer to a known class"
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


def on_number(fits: Mapping[int, Fit], used: int) -> str:
    """Which numbers of new clusters fit, and what to do if the ``used`` one does not."""
    best = suggested(fits)
    said = f"Links, stability and words suggest {text.counted(best, 'new cluster')}."
    least = (1 - EVEN) * max(fit.score for fit in fits.values())
    even = [number for number in sorted(fits) if number > 1 and fits[number].score >= least]
    if others := [number for number in even if number != best]:
        fit = "fits" if len(others) == 1 else "fit"
        said += f" {text.ranges(others)} {fit} about equally well."
    more = used + 1
    return (
        f"{said} If a cluster mixes topics, take more, such as --new {more}: you can give two"
        " clusters one name, but you cannot split a cluster."
    )


def left_out(rows: Sequence[Row]) -> str:
    """Which new clusters the command that names clusters leaves out, and why; empty = none."""
    numbers: dict[str, list[str]] = {}
    for row in (row for row in rows if row.leftover):
        numbers.setdefault(row.leftover, []).append(str(row.cluster.number))
    return "; ".join(f"left out: {text.listed(those)}, {why}" for why, those in numbers.items())


def to_csv(rows: Sequence[Row]) -> str:
    """A line per new cluster, with figures in full precision."""
    ends = ["in_small_components", "nearest_known_classes", "words", "typical_nodes", "name"]
    head = ["cluster", "nodes", *FIGURES, *ends]
    lines = []
    for row in (row for row in rows if row.cluster.number):
        values = [getattr(row.cluster, figure) for figure in (*FIGURES, "small")]
        nodes = [node.line for node in (*row.typical, *row.others)]
        lists = " | ".join(row.words), " | ".join(nodes)
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
        "part": _part_of_nodes(discovery),
        "cluster_name": [cluster.name for cluster in groups],
        "newness": [cluster.newness for cluster in groups],
        "typical": discovery.typical.tolist(),
    }


def _part_of_nodes(discovery: Discovery) -> list[str]:
    """The part of each node of a new cluster, such as ``1a``; "" for the others."""
    found = [""] * len(discovery.cluster)
    for new in discovery.new:
        for letter, part in zip("abcdefgh", new.parts):
            for node in part.tolist():
                found[node] = f"{new.number}{letter}"
    return found


def shown_node(names: Names, node: int) -> Shown:
    """A node with its id, its title and its text apart, none of which repeats another.

    The title is the first line of a text of several lines, or the id where a text begins with it.
    """
    id = plain(names.ids[node]) if names.ids is not None else f"node {node}"
    whole = names.texts[node].strip() if names.texts is not None else ""
    first, _, rest = whole.partition("\n")
    title = plain(first) if rest else ""
    body = plain(rest or first)
    start = title or id
    while body and _same(body[: len(start)], start) and not body[len(start) :][:1].isalnum():
        title = title or body[: len(start)]
        body = body[len(start) :].lstrip(" :-–—,;")
    return Shown(node, id, title, body)


def _same(one: str, other: str) -> bool:
    """Whether two names differ at most in case, and in underscores for spaces."""
    return one.replace("_", " ").casefold() == other.replace("_", " ").casefold()


def column_name(names: Names, column: int) -> str:
    """The word that a feature column stands for."""
    return plain(names.words[column])[:40] if names.words is not None else f"feature {column}"


def distinguishing(
    x: sp.csr_array | np.ndarray, group: np.ndarray, num_groups: int, most: int = TOP
) -> list[list[int]]:
    """The typical columns of each group, those with :math:`z` above 2, the largest first.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        num_groups: number of groups.
        most: maximum number of columns per group.
    """
    found = []
    for z in contrast(x, group, num_groups):
        best = np.argsort(-z, kind="stable")[:most]
        found.append(best[z[best] > LEAST_Z].tolist())
    return found


def contrast(x: sp.csr_array | np.ndarray, group: np.ndarray, num_groups: int) -> np.ndarray:
    """How much more each group has of each feature than the other nodes, in standard errors.

    Words count once per node (:func:`log_odds`); other features are compared by Welch's t.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        num_groups: number of groups.

    Returns:
        :math:`z`, ``[C, F]``; 0 for a group without nodes or with all of them.
    """
    found = np.zeros((num_groups, x.shape[1]))
    is_words = are_words(x)
    total = np.asarray((x > 0).sum(0)).ravel()
    for number in range(num_groups):
        inside, outside = x[group == number], x[group != number]
        if not inside.shape[0] or not outside.shape[0]:
            continue
        if is_words:
            count = np.asarray((inside > 0).sum(0)).ravel()
            found[number] = log_odds(count, total - count, PRIOR * np.maximum(total, 1))
        else:
            a, b = (part.toarray() if sp.issparse(part) else part for part in (inside, outside))
            error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
            found[number] = (a.mean(0) - b.mean(0)) / np.maximum(error, 1e-12)
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

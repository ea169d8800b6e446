"""The new clusters in words: names of nodes and features, typical words, text and CSV."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import pandas
import torch
from torch import Tensor

from graphgym_srnc.core import text
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.names import Names
from graphgym_srnc.methods.shared.label_scan import FewLabels
from graphgym_srnc.methods.shared.topics import Matrix
from graphgym_srnc.own.discover import clusters
from graphgym_srnc.own.discover.candidates import DOUBT, MISSING, MOST, P_UNKNOWN
from graphgym_srnc.own.discover.clusters import CLEAR, Cluster, Discovery
from graphgym_srnc.own.discover.number import Fit, even, suggested
from graphgym_srnc.own.discover.words import (
    SD,
    Shown,
    described,
    shown_node,
    typical_numbers,
    typical_words,
)

NEAREST = 18  # maximum length of the name of the nearest known class
TOP = 10  # number of words shown for a cluster
TYPICAL = 5  # number of typical nodes shown for a cluster
OTHERS = 5  # number of other nodes shown
PART_WORDS = 5  # number of words shown for a part of a cluster
EXAMPLES = 3  # number of nodes of a group
MANY = 1000  # more new clusters than are ever suggested
# Figures of a cluster, with their formats in print.
FIGURES = {
    "newness": ".2f",
    "p_unknown": ".2f",
    "clarity": ".2f",
    "modularity": ".3f",
    "conductance": ".2f",
    "cohesion": ".2f",
    "lift": ".1f",
}

SIGNIFICANT = 0.05  # p-value of a group with few labels

MEANINGS = {
    P_UNKNOWN: "P(unknown): mean probability that a node of the cluster is of no known class",
    MISSING: "missing labels: share of the expected labels that it lacks, if those of each class"
    " are drawn at random; p: probability that chance alone leaves some group as few",
    DOUBT: "doubt: 1 less the probability of the most probable known class, mean of the nodes",
}
ALSO = "Possibly also new: groups predicted as known classes that have few labels"
ON_ALSO = "Their words tell you more. If one is a new class, name it by its number, as a cluster."
FEW_LABELS = "few labels"  # name of the colours of such groups on the map
NUMBERS = 5  # shown features that are numbers
ON_DATES = "dates, lower to upper quartile"
ON_NUMBERS = "numbers, lower to upper quartile"
ON_SD = f" ({SD}: standard deviations from the mean)"
ON_PARTS = "Name a part by its number, as a cluster."
ON_MIXTURE = "Check its nodes, since a class of mixed nodes makes predictions worse."
PERHAPS_MIXED = "perhaps mixed"
PERHAPS_KNOWN = "perhaps known"  # a candidate that may lack labels by chance
ONLY_BY_CHANCE = (
    "Chance alone may leave groups with so few labels. Name one only if you recognise a new class."
)

ALL_LEFTOVERS = (
    "No cluster is clear. Look at the nodes of each. Name one only if you recognise a class, and"
    " give it the name of a known class if it is one."
)


class Part(NamedTuple):
    """A part of a cluster in words."""

    name: str  # such as 1a, or 1a, physics
    size: int
    words: list[str]
    example: Shown


class Also(NamedTuple):
    """A group of nodes predicted as known classes that may be of a new class, in words."""

    found: FewLabels
    words: list[str]
    examples: list[Shown]

    @property
    def title(self) -> str:
        """Its number, and its name if it has one."""
        return _title(self.found)

    @property
    def facts(self) -> str:
        """Its size, and how few labels it has."""
        return f"{len(self.found.nodes):,} nodes, {few_labels(self.found)}"


class Row(NamedTuple):
    """A cluster in words."""

    cluster: Cluster
    nearest: str  # the known class with the highest probability, and its probability
    words: list[str]  # its typical words
    typical: list[Shown]  # its most typical nodes
    others: list[Shown]  # others of its nodes, see ``shown``
    parts: list[Part]  # see ``number.parts``
    numbers: Sequence[str] = ()  # see ``typical_numbers``
    has_text: bool = True  # whether most features that describe nodes are words, not categories
    few_labels: str = ""  # how few labels a candidate has
    dates: str = ""  # the quartiles of its dates, if it has some
    by_chance: bool = False  # whether chance alone may leave a candidate with so few

    @property
    def title(self) -> str:
        """Its number if it is new, and its name if it has one."""
        return _title(self.cluster)

    @property
    def heads(self) -> list[str]:
        """What it is called on the map: words, after two numbers if there is no text."""
        return self.words if self.has_text else [*self.numbers[:2], *self.words]

    @property
    def on_numbers(self) -> str:
        """What its numbers are."""
        has_sd = any(number.endswith(SD) for number in self.numbers)
        return ON_NUMBERS + ON_SD * has_sd

    @property
    def size(self) -> str:
        """Its number of nodes."""
        return f"{len(self.cluster.nodes):,}"

    @property
    def lines(self) -> list[str]:
        """The nodes that are shown of it, a line each."""
        return [node.line for node in (*self.typical, *self.others)]

    @property
    def leftover(self) -> str:
        """Why a new cluster without a name is not proposed as a class; "" if it is."""
        return "" if self.cluster.name else self.cluster.weakness

    @property
    def verdict(self) -> str:
        """Whether its nodes are of one class, in a word or two."""
        if self.cluster.weakness:
            return "leftover"
        if self.by_chance and not self.cluster.name:
            return PERHAPS_KNOWN
        return "clear" if self.cluster.is_clear else PERHAPS_MIXED

    @property
    def has_classes_in_parts(self) -> bool:
        """Whether its parts may be different classes, so that they are named instead.

        A part without a typical word has nothing by which a user could name it.
        """
        is_open = self.verdict in ("leftover", PERHAPS_MIXED) and not self.cluster.name
        return bool(self.parts) and is_open and all(part.words for part in self.parts)

    @property
    def figures(self) -> dict[str, str]:
        """Its figures in print."""
        return {name: format(getattr(self.cluster, name), form) for name, form in FIGURES.items()}


def rows(discovery: Discovery, x: Matrix, names: Names) -> list[Row]:
    """All clusters in words: those of known classes, then the likeliest new class first.

    Args:
        discovery: the clusters.
        x: features, ``[V, F]``.
        names: of nodes and feature columns.
    """
    groups = (discovery.cluster.numpy(), len(discovery.every))
    numbers = typical_numbers(x, *groups, names, NUMBERS)
    x, names = described(x, names)
    words = typical_words(x, *groups, names, TOP)
    categories = sum("=" in word for word in names.words or ())
    has_text = 2 * categories < x.shape[1]
    groups_of = dict(enumerate(discovery.seeds.groups, 1))
    classes = text.apart(discovery.classes, NEAREST)
    result = []
    for cluster, own, far in zip(discovery.every, words, numbers):
        nearest = classes[cluster.nearest]
        typical, others = ([shown_node(names, node) for node in nodes] for nodes in shown(cluster))
        group = groups_of.get(cluster.number)
        row = Row(
            cluster,
            f"{nearest} {cluster.nearest_share:.2f}",
            own,
            typical,
            others,
            _parts(cluster, x, names),
            far,
            has_text,
            few_labels(group) if group else "",
            _quartiles(names.dates, cluster.nodes),
            group is not None and group.p_value >= SIGNIFICANT,
        )
        result.append(row)
    return result


def _quartiles(dates: Sequence[str] | None, nodes: Tensor) -> str:
    """The lower and the upper quartile of the dates of nodes ``[n]``; "" if they have none."""
    known = sorted(filter(None, (dates[node] for node in nodes.tolist()))) if dates else []
    if not known:
        return ""
    return f"{known[len(known) // 4]} to {known[3 * len(known) // 4]}"


def _parts(cluster: Cluster, x: Matrix, names: Names) -> list[Part]:
    """The parts of a cluster, with the words that set each apart from the others."""
    if not cluster.parts:
        return []
    sizes = [len(part.nodes) for part in cluster.parts]
    group = np.repeat(np.arange(len(sizes)), sizes)
    nodes = torch.cat([part.nodes for part in cluster.parts]).numpy()
    words = typical_words(x[nodes], group, len(sizes), names, PART_WORDS)
    return [
        Part(_title(part), len(part.nodes), own, shown_node(names, int(part.nodes[0])))
        for part, own in zip(cluster.parts, words)
    ]


def _title(one: Cluster | FewLabels | clusters.Part) -> str:
    """Its number if it is new, and its name if it has one."""
    return ", ".join(filter(None, [str(one.number or ""), plain(one.name)]))


def few_labels(found: FewLabels) -> str:
    """How few labels a group has, and the p-value."""
    labels = text.counted(found.found, "label")
    return f"{labels} where {found.expected:.1f} are expected (p = {found.p_value:.2g})"


def also_rows(found: Sequence[FewLabels], x: Matrix, names: Names) -> list[Also]:
    """Groups with few labels in words, which set each apart from all other nodes.

    Args:
        found: the groups.
        x: features, ``[V, F]``.
        names: of nodes and feature columns.
    """
    group = np.zeros(x.shape[0], dtype=int)
    for number, one in enumerate(found, 1):
        group[one.nodes.numpy()] = number
    words = typical_words(x, group, len(found) + 1, names, TOP)[1:]
    return [
        Also(one, own, [shown_node(names, node) for node in one.nodes[:EXAMPLES].tolist()])
        for one, own in zip(found, words)
    ]


def on_also(also: Sequence[Also]) -> list[str]:
    """Groups of nodes predicted as known classes that may be of a new one, a line each."""
    if not also:
        return []
    lines = ["", f"{ALSO}. {on_evidence(also)} {ON_ALSO}"]
    for row in also:
        nodes = ", ".join(text.short(node.head, NEAREST) for node in row.examples)
        words = ", ".join(row.words) or "no typical word"
        lines.append(f"  {row.title}: {row.facts}: {words}; such as {nodes}")
    return lines


def on_evidence(also: Sequence[Also]) -> str:
    """Whether groups with few labels are evidence of a further new class."""
    significant = sum(row.found.p_value < SIGNIFICANT for row in also)
    if significant:
        are = "is" if significant == 1 else "are"
        return f"{text.counted(significant, 'group')} {are} significant (p < {SIGNIFICANT:g})."
    return (
        f"No group alone is significant (p < {SIGNIFICANT:g}), and every graph has such groups. A"
        " missed class can be among them."
    )


def shown(cluster: Cluster) -> tuple[list[int], list[int]]:
    """At most ``TYPICAL`` most typical nodes, and ``OTHERS`` of the rest at equal distances.

    The most typical nodes alone would hide that a cluster mixes topics. Nodes in small components
    are left out if there are others.
    """
    nodes = cluster.reliable.tolist()
    rest = nodes[TYPICAL:]
    return nodes[:TYPICAL], rest[:: -(-len(rest) // OTHERS) or 1]


def to_text(new: Sequence[Row], head: str = P_UNKNOWN, best: int = MANY) -> str:
    """The new clusters: a table, then the words and some nodes of each.

    ``head`` is the name of their mean P(unknown), and ``best`` the suggested number of them.
    """
    lines = [["cluster", "nodes", "newness", head, "clarity", "nearest known class"]]
    for row in new:
        figures = [row.figures["newness"], row.figures["p_unknown"]]
        clarity = f"{row.figures['clarity']} {row.verdict}"
        lines.append([str(row.cluster.number), row.size, *figures, clarity, row.nearest])
    meaning = [f"newness: {head}, reduced for links that leave the cluster", MEANINGS[head]]
    meaning.append(on_clarity(head, len(new), best))
    details = [line for row in new for line in _details(row)]
    return text.aligned(lines) + "\n".join([*meaning, *details])


def _details(row: Row) -> list[str]:
    """Words, nodes and parts of a new cluster, a line each."""
    lines = [f"\ncluster {row.title}: {', '.join(row.words) or 'no typical word'}"]
    if row.few_labels:
        lines.append(f"  {row.few_labels}")
    if row.leftover:
        lines.append(f"  leftover: {row.leftover}")
    if row.dates:
        lines.append(f"  {ON_DATES}: {row.dates}")
    if row.numbers:
        lines.append(f"  {row.on_numbers}: {', '.join(row.numbers)}")
    lines += [f"  {node}" for node in row.lines]
    for part in row.parts:
        words = ", ".join(part.words) or "no typical word"
        lines.append(f"  part {part.name}, {text.counted(part.size, 'node')}: {words}")
    if row.parts:
        lines.append(f"  {ON_PARTS}")
    return lines


def of_another_time(p_value: float, is_clear: bool) -> str:
    """What labels that were drawn from a part of the nodes alone say of new clusters."""
    sign = "a clear" if is_clear else "no clear"
    tested = f"there is {sign} sign of a new class (p = {p_value:.2g})"
    if p_value < 0:
        tested = "nothing tests for a new class"
    return (
        "Only some nodes could have been drawn as labelled ones, such as those of the same time."
        f" Among these {tested}, and of the others the labels say nothing. A new cluster may also"
        " be of a known class that looks different there: compare its words with the nearest known"
        " class, and if it is, give it that name."
    )


def on_seeds(discovery: Discovery) -> str:
    """How many nodes may be of new classes, and how many of them the new clusters contain."""
    seeds = discovery.seeds
    total = len(seeds.nodes)
    if seeds.groups:
        groups = text.counted(len(seeds.groups), "group")
        return (
            f"The model predicts no node as unknown. Candidates for new classes: {groups} of"
            f" similar nodes with unusually few labels, {text.counted(total, 'node')} together."
        )
    if seeds.predicted:
        said = f"The model predicts {total:,} of {len(discovery.cluster):,} nodes as unknown."
    else:
        said = (
            f"The model predicts no node as unknown. The {total:,} nodes ({100 * seeds.share:.0f} %"
            " of all) whose class is least certain are examined."
        )
    noun = "new cluster" if seeds.predicted else "candidate"
    inside = sum(len(new.nodes) for new in discovery.new)
    clusters = text.counted(len(discovery.new), noun)
    rest = total - inside
    return f"{said} {inside:,} of them form {clusters}, and {rest:,} are closer to a known class."


def on_first_group(discovery: Discovery, p_value: float) -> str:
    """Evidence of the first candidate against the model's own test; "" if there is none."""
    groups = discovery.seeds.groups
    if not groups or groups[0].p_value >= SIGNIFICANT:
        return ""
    return (
        f"Cluster 1 has fewer labels than chance explains (p = {groups[0].p_value:.2g}), a sign of"
        f" a new class, but the test of the model shows none (p = {p_value:.2g})."
    )


def on_value(number: int | str, value: str, share: float, labelled: int) -> str:
    """That a new cluster may be one value of a category, which few labelled nodes have."""
    have = "has" if labelled == 1 else "have"
    count = text.counted(labelled, "labelled node") if labelled else "No labelled nodes"
    return (
        f"{100 * share:.0f} % of the nodes of cluster {number} have {value}. {count} {have} it. The"
        " cluster may be this value and no class: compare with a graph without this column."
    )


def on_named_mixtures(new: Sequence[Row], names: Mapping[str, str]) -> list[str]:
    """Warnings of clusters with ``names`` by number whose nodes may be of several classes."""
    warnings = []
    for row in new:
        number = str(row.cluster.number)
        if row.cluster.weakness:
            warnings += [
                f"Part {part.number} has a name, but its cluster is a leftover. {ON_MIXTURE}"
                for part in row.cluster.parts
                if part.number in names
            ]
        if number not in names:
            continue
        if row.cluster.weakness:
            warnings.append(
                f"Cluster {number} has a name, but would be a leftover: {row.cluster.weakness}."
                f" {ON_MIXTURE}"
            )
        elif row.verdict == PERHAPS_MIXED:
            parts = " or parts" if row.parts else ""
            warnings.append(
                f"Cluster {number} is {PERHAPS_MIXED}. {ON_MIXTURE} More clusters{parts} may"
                " separate them."
            )
    return warnings


def on_number(fits: Mapping[int, Fit], divided: int = 0) -> str:
    """Which numbers of new clusters fit; without fits, which groups are shown.

    ``divided`` is the number of clusters that are shown in place of an unclear one; 0 = none.
    """
    if not fits:
        return f"At most {MOST} groups are shown. A larger number of new clusters shows more."
    best = suggested(fits)
    said = f"Links, stability and words suggest {text.counted(best, 'new cluster')}."
    if divided:
        said += f" It would not be clear, so {divided} are shown."
        return f"{said} Give those of one class one name."
    others = [number for number in even(fits) if number not in (1, best)]
    if others:
        fit = "fits" if len(others) == 1 else "fit"
        said += f" {text.ranges(others)} {fit} about equally well."
    return said


def on_clarity(head: str, count: int, best: int) -> str:
    """What clarity means, and how far to trust it.

    Args:
        head: name of the mean P(unknown) of clusters.
        count: number of new clusters.
        best: the suggested number.
    """
    meaning = f"clarity: {head} times how alike the nodes are."
    if count <= best:
        return f"{meaning} Most clear clusters (from {CLEAR:g}) are of one class"
    return (
        f"{meaning} With more clusters than suggested, about a third of the clear ones (from"
        f" {CLEAR:g}) are mixed"
    )


def to_csv(new: Sequence[Row]) -> str:
    """A line per new cluster, with figures in full precision."""
    ends = ["in_small_components", "verdict", "nearest_known_classes", "words", "typical_nodes"]
    ends.append("name")
    lines: list[list[Any]] = [["cluster", "nodes", *FIGURES, *ends]]
    for row in new:
        cluster = row.cluster
        figures = [getattr(cluster, name) for name in (*FIGURES, "small")]
        texts = [
            row.verdict,
            row.nearest,
            " | ".join(row.words),
            " | ".join(row.lines),
            cluster.name,
        ]
        lines.append([cluster.number, len(cluster.nodes), *figures, *texts])
    return text.to_csv(lines)


def of_nodes(
    discovery: Discovery, names: Names, points: np.ndarray | None = None
) -> pandas.DataFrame:
    """A row for each node; ``points`` ``[V, 2]`` are their positions."""
    groups = [discovery.every[k] for k in discovery.cluster.tolist()]
    classes = [*discovery.classes, "unknown"]
    part = np.full(len(groups), "", dtype=object)
    few = np.full(len(groups), "", dtype=object)
    for group in discovery.also:
        few[group.nodes.numpy()] = str(group.number)
    name = np.array([cluster.name for cluster in groups], dtype=object)
    for new in discovery.new:
        for one in new.parts:
            part[one.nodes.numpy()] = one.number
            name[one.nodes.numpy()] = one.name or new.name
    columns = {
        "node": range(len(groups)),
        "id": names.ids,
        "text": names.texts,
        "x": None if points is None else points[:, 0],
        "y": None if points is None else points[:, 1],
        "class": [classes[k] for k in discovery.label.tolist()],
        "p_unknown": discovery.posterior[:, -1].tolist(),
        "cluster": [cluster.number for cluster in groups],
        "part": part,
        "cluster_name": name,
        "group_with_few_labels": few if discovery.also else None,
        "newness": [cluster.newness for cluster in groups],
        "typical": discovery.typical,
    }
    return pandas.DataFrame({head: own for head, own in columns.items() if own is not None})

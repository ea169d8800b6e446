"""Classes over time: how the classes of a graph have changed since an earlier graph.

New clusters get the names of similar earlier classes that are no class of today. Then classes with
the same name are the same class, and the nodes of each are counted.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score
from sklearn.preprocessing import StandardScaler, normalize
from torch import Tensor

from graphgym_srnc.core import text
from graphgym_srnc.data.labels import UNKNOWN
from graphgym_srnc.data.names import Names, check_features, other_features
from graphgym_srnc.methods.shared.topics import Matrix, are_words, by_group, weighted
from graphgym_srnc.own.discover.clusters import Discovery

GONE = 0.1  # share of its earlier share that a class may keep by errors of the models
SHARED = 0.5  # share of the earlier nodes that must have an id of today, so that ids are compared
AGREE = 0.5  # least kappa between the classes of these nodes then and now
ALIKE = 0.5  # least similarity to an earlier class if no class has the same name then and now
LONGEST = 24  # letters of a name in print
SHOWN = 3  # most earlier classes of the nodes of a class in print
MOVES = 10  # most changes from one class to another in print
HEADS = [
    "class",
    "status",
    "nodes then",
    "nodes now",
    "share then",
    "share now",
    "change in points",
]
LAST_HEAD = "most similar earlier class"
LAST_HEAD_BY_IDS = "classes of its nodes then"
ON_INTERVALS = (
    "Intervals of the change are 95 % intervals of Newcombe (1998). They treat nodes as independent"
    " and leave out errors of the models."
)


ON_SAME_NODES = "Both runs have the same nodes, so labels and training differ, and not the time."


class Earlier(NamedTuple):
    """What an earlier model predicts for its own graph.

    Args:
        classes: names of its :math:`N` known classes.
        label: class of each node of its graph, ``[U]``; :math:`N` = unknown.
        x: features of its graph, ``[U, F]``.
        names: of nodes and feature columns of its graph.
    """

    classes: list[str]
    label: Tensor
    x: Matrix
    names: Names


class Change(NamedTuple):
    """Nodes of a class, their shares of all nodes, and a 95 % interval of the change of this."""

    then: int
    now: int
    share_then: float
    share_now: float
    change: float
    low: float
    high: float


class Changes(NamedTuple):
    """How classes have changed.

    Args:
        table: a row per class, see :func:`changes`.
        notes: sentences on the nodes, the similarities and the intervals.
        then: class of each node of today in the earlier graph, ``[V]``, "" if it is not there; None
            if ids are not compared.
        now: class of each node of today, ``[V]``; new clusters without a name are unknown.
        same_nodes: whether both graphs have the same nodes, so that only training differs.
    """

    table: pandas.DataFrame
    notes: list[str]
    then: np.ndarray | None
    now: np.ndarray
    same_nodes: bool = False

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """``class_then`` and ``class_now`` of each node of today, ``[V]``, if ids are compared."""
        return {} if self.then is None else {"class_then": self.then, "class_now": self.now}

    @property
    def moves(self) -> list[str]:
        """How many nodes of both graphs changed from which class to which, the most first."""
        if self.then is None:
            return []
        changed = (self.then != "") & (self.then != self.now)
        counts = Counter(zip(self.then[changed], self.now[changed])).most_common()
        total = int((self.then != "").sum())
        head = f"{int(changed.sum()):,} of {total:,} nodes are in another class than then"
        lines = [f"{n:,} from {_cut(old)} to {_cut(new)}" for (old, new), n in counts[:MOVES]]
        if len(counts) > MOVES:
            rest = sum(n for _, n in counts[MOVES:])
            lines.append(f"{rest:,} in {len(counts) - MOVES} other ways")
        return [head, *lines]

    @property
    def title(self) -> str:
        """What is compared: nodes of two times, or predictions of the same nodes."""
        if self.same_nodes:
            return "Predictions of the two runs, for the same nodes"
        return "Classes over time"

    @property
    def cells(self) -> list[list[str]]:
        """The table in print, its head first."""
        by_ids = self.then is not None
        lines = [[*HEADS, LAST_HEAD_BY_IDS if by_ids else LAST_HEAD]]
        for row in self.table.itertuples():
            low, high = (f"{100 * end:+.1f}" for end in (row.low, row.high))
            similar = f"{_cut(row.similar_to)} {row.similarity:.2f}" if row.now else ""
            line = [
                _cut(row.name),
                row.status,
                f"{row.then:,}",
                f"{row.now:,}",
                f"{100 * row.share_then:.1f} %",
                f"{100 * row.share_now:.1f} %",
                f"{100 * row.change:+.1f} ({low} to {high})",
                row.before if by_ids else similar,
            ]
            lines.append(line)
        return lines

    @property
    def lines(self) -> list[str]:
        """The table and the notes as lines of text."""
        table = text.aligned(self.cells).splitlines()
        ways = [f"  {move}" for move in self.moves[1:]]
        return [self.title, *table, *self.moves[:1], *ways, *self.notes]


def _cut(name: str) -> str:
    return text.short(name, LONGEST)


class Profiles(NamedTuple):
    """Vectors of nodes then and now; groups of nodes are alike if the means of theirs are.

    Args:
        then: of the earlier nodes, ``[U, D]``.
        now: of the nodes of today, ``[V, D]``.
        centre: what is subtracted from a mean, ``[D]``.
        note: what they are, as a sentence.
        pairs: nodes then and the same nodes today, by ids, ``[2, M]``; None if ids are not
            compared.
    """

    then: Matrix
    now: Matrix
    centre: np.ndarray
    note: str
    pairs: np.ndarray | None = None

    def similarity(
        self, label: Tensor, num_classes: int, group: np.ndarray, num_groups: int
    ) -> np.ndarray:
        """Cosine of the angle between means of groups of today and of earlier classes, ``[C, N]``.

        Args:
            label: class of each earlier node, ``[U]``.
            num_classes: :math:`N`; nodes of other classes are left out.
            group: of each node of today, ``[V]``.
            num_groups: :math:`C`.
        """
        today = self._directions(self.now, group, num_groups)
        return today @ self._directions(self.then, label.numpy(), num_classes + 1)[:num_classes].T

    def _directions(self, x: Matrix, group: np.ndarray, count: int) -> np.ndarray:
        """Means of groups in vectors of length 1, ``[count, D]``; 0 for a group without nodes."""
        size = np.bincount(group, minlength=count)[:, None]
        means = by_group(x, group, count) / size.clip(min=1)
        return normalize((means - self.centre) * (size > 0))


def profiles(found: Discovery, earlier: Earlier, x: Matrix, names: Names) -> Profiles:
    """Nodes in both graphs if at least :data:`SHARED` of the earlier nodes are, or else features.

    By ids, a node is its own column, so that similarity is the number of shared nodes by the
    geometric mean of the sizes, without nodes that are in one graph alone. Features are words
    weighted by inverse document frequency, or have variance 1, and their mean is subtracted.

    Args:
        found: the clusters of today.
        earlier: what the earlier model predicts.
        x: features of today, ``[V, F]``.
        names: of nodes and feature columns of today.

    Raises:
        InputError: the graphs have other features.
    """
    if earlier.x.shape[1] != x.shape[1]:
        raise other_features(
            "since", f"that graph has {earlier.x.shape[1]} features, and this one {x.shape[1]}"
        )
    check_features(earlier.names.words, names.words, "since")
    place = {id: node for node, id in enumerate(earlier.names.ids or ())}
    pairs = [(place[id], node) for node, id in enumerate(names.ids or ()) if id in place]
    before, today = both_nodes = np.array(pairs, dtype=int).reshape(-1, 2).T
    size = len(earlier.label)
    shared = f"{len(pairs):,} of the {size:,} earlier ids are in this graph"
    if len(pairs) >= SHARED * size and _are_same(found, earlier, before, today):
        ones = np.ones(len(pairs))
        column = np.arange(len(pairs))
        then = sp.csr_array((ones, (before, column)), shape=(size, len(pairs)))
        now = sp.csr_array((ones, (today, column)), shape=(x.shape[0], len(pairs)))
        note = f"{shared}. Similarities compare these nodes."
        return Profiles(then, now, np.zeros(len(pairs)), note, both_nodes)
    both = sp.vstack([sp.csr_array(earlier.x), sp.csr_array(x)]).tocsr()
    both = (
        weighted(both) if are_words(both) else StandardScaler(with_mean=False).fit_transform(both)
    )
    note = "Similarities compare mean features of classes."
    if len(pairs) >= SHARED * size:
        note = f"{shared}, but most in another class. Therefore ids are not compared. {note}"
    return Profiles(both[:size], both[size:], np.asarray(both.mean(0)).ravel(), note)


def _are_same(found: Discovery, earlier: Earlier, before: np.ndarray, today: np.ndarray) -> bool:
    """Whether equal ids name equal nodes: numbers of rows would name nodes of other classes.

    Args:
        found: the clusters of today.
        earlier: what the earlier model predicts.
        before: nodes of the earlier graph with an id of today.
        today: the nodes of today with these ids.
    """
    was = np.array([*earlier.classes, UNKNOWN])[earlier.label.numpy()[before]]
    now = np.array([*found.classes, UNKNOWN])[found.label.numpy()[today]]
    both = np.isin(was, found.classes) & np.isin(now, earlier.classes)
    return bool(both.any()) and cohen_kappa_score(was[both], now[both]) >= AGREE


def carried_names(
    found: Discovery, classes: Sequence[str], similarity: np.ndarray
) -> dict[str, str]:
    """Earlier names of new clusters without a name, by number of the cluster.

    The Hungarian method gives each cluster an earlier class of its own that no class of today is,
    or none, so that the sum of similarities is highest. None counts as the similarity in the middle
    between classes with the same name and the most similar classes with another one. Further
    clusters above it follow their most similar class.

    Args:
        found: the clusters, some of whose new ones may have names.
        classes: names of the earlier classes.
        similarity: of all clusters to them, ``[C, N]``.

    References:
        Kuhn, The Hungarian method for the assignment problem (Naval Research Logistics Quarterly
        1955).
    """
    taken = {cluster.name for cluster in found.every}
    free = [k for k, name in enumerate(classes) if name not in taken]
    first = len(found.known)
    rows = [first + place for place, new in enumerate(found.new) if not new.name]
    if not free or not rows:
        return {}
    least = _least_similarity(found, classes, similarity)
    own = similarity[np.ix_(rows, free)]
    none = np.full((len(rows), len(rows)), least)
    _, column = linear_sum_assignment(np.concatenate([own, none], 1), maximize=True)
    follows = (column >= len(free)) & (own.max(1) > least)
    column = np.where(follows, own.argmax(1), column)
    return {
        str(found.new[row - first].number): classes[free[k]]
        for row, k in zip(rows, column.tolist())
        if k < len(free)
    }


def _least_similarity(found: Discovery, classes: Sequence[str], similarity: np.ndarray) -> float:
    """The middle between classes with the same name and the most similar classes with another."""
    same = []
    other = []
    for row, cluster in zip(similarity, found.every):
        if cluster.name in classes and len(cluster.nodes) and len(classes) > 1:
            k = classes.index(cluster.name)
            same.append(row[k])
            other.append(np.delete(row, k).max())
    return float(np.median(same) + np.median(other)) / 2 if same else ALIKE


def changes(found: Discovery, earlier: Earlier, alike: Profiles) -> pandas.DataFrame:
    """A row per class: its status, and numbers of nodes and shares of all nodes then and now.

    The status is *new*, *named*, *grown*, *shrunk*, *unchanged* or *gone*. A class is named if the
    earlier model has no such class and the labels of today have. It is gone if less than
    :data:`GONE` of its earlier share is left, and unchanged if the 95 % interval of the ``change``
    of its share, from ``low`` to ``high``, contains 0. Candidates without an earlier class count
    as their predicted class. ``similar_to`` is the most similar earlier class, and ``before`` says
    how many nodes were of which class then, if ids are compared.

    Args:
        found: the clusters with their names.
        earlier: what the earlier model predicts.
        alike: similarities of nodes.
    """
    num_classes = len(earlier.classes)
    then = dict(zip(earlier.classes, earlier.label.bincount(minlength=num_classes).tolist()))
    classes = classes_now(found)
    for new in found.new:
        if found.seeds.predicted and not new.name:
            classes[new.nodes.numpy()] = f"cluster {new.number}"
    names = [*dict.fromkeys([*then, *found.classes, *classes, UNKNOWN])]
    group = pandas.Categorical(classes, names).codes.astype(int)
    sizes = np.bincount(group, minlength=len(names)).tolist()
    similarity = alike.similarity(earlier.label, num_classes, group, len(names))
    was = classes_then(earlier, alike, len(group))
    rows = []
    for name, size, own in zip(names, sizes, similarity):
        change = _change((then.get(name, 0), size), (len(earlier.label), len(group)))
        status = _status(change, name in then, name in found.classes)
        similar_to = earlier.classes[own.argmax()] if size else ""
        before = "" if was is None else _before(was[classes == name])
        rows.append([name, status, *change, similar_to, own.max(), before])
    columns = ["name", "status", *Change._fields, "similar_to", "similarity", "before"]
    table = pandas.DataFrame(rows, columns=columns)
    return table[table["name"] != UNKNOWN].reset_index(drop=True)


def classes_now(found: Discovery) -> np.ndarray:
    """Class of each node of today, ``[V]``, or the name of its new cluster, or unknown."""
    classes = np.array([*found.classes, UNKNOWN], dtype=object)[found.label.numpy()]
    for new in found.new:
        if new.name:
            classes[new.nodes.numpy()] = new.name
    return classes


def classes_then(earlier: Earlier, alike: Profiles, num_nodes: int) -> np.ndarray | None:
    """Earlier class of each node of today, ``[V]``, "" if it is new; None if ids do not tell."""
    if alike.pairs is None:
        return None
    before, today = alike.pairs
    classes = np.full(num_nodes, "", dtype=object)
    classes[today] = np.array([*earlier.classes, UNKNOWN], dtype=object)[earlier.label[before]]
    return classes


def _before(classes: np.ndarray) -> str:
    """How many nodes were of which class then, such as ``41 unknown, 8 Biology, 2 new nodes``."""
    counts = Counter(classes.tolist())
    new = counts.pop("", 0)
    most = counts.most_common(SHOWN)
    parts = [f"{n:,} {_cut(name)}" for name, n in most]
    rest = sum(counts.values()) - sum(n for _, n in most)
    if rest:
        parts.append(f"{rest:,} other")
    if new:
        parts.append(text.counted(new, "new node"))
    return ", ".join(parts)


def _change(counts: tuple[int, int], totals: tuple[int, int]) -> Change:
    """How many of all nodes are of a class, then and now.

    References:
        Newcombe, Interval estimation for the difference between independent proportions
        (Statistics in Medicine 1998), method 10, which joins two intervals of Wilson.
    """
    then, now = (
        binomtest(count, total).proportion_ci(0.95, "wilson")
        for count, total in zip(counts, totals)
    )
    share_then, share_now = np.divide(counts, totals).tolist()
    change = share_now - share_then
    low = change - math.hypot(share_now - now.low, then.high - share_then)
    high = change + math.hypot(now.high - share_now, share_then - then.low)
    return Change(*counts, share_then, share_now, change, low, high)


def _status(change: Change, is_earlier: bool, is_known: bool) -> str:
    """What has become of a class, see :func:`changes`."""
    if not is_earlier:
        return "named" if is_known else "new"
    if change.share_now < GONE * change.share_then:
        return "gone"
    if change.low > 0:
        return "grown"
    return "shrunk" if change.high < 0 else "unchanged"


def compare(
    found: Discovery, earlier: Earlier, x: Matrix, names: Names
) -> tuple[Discovery, Changes]:
    """The clusters with the names of earlier classes, and how all classes have changed.

    Args:
        found: the clusters; those with a name keep it.
        earlier: what the earlier model predicts.
        x: features of today, ``[V, F]``.
        names: of nodes and feature columns of today.

    Raises:
        InputError: the graphs have other features.
    """
    alike = profiles(found, earlier, x, names)
    num_classes = len(earlier.classes)
    group = found.cluster.numpy()
    similarity = alike.similarity(earlier.label, num_classes, group, len(found.every))
    found = found.named(found.names | carried_names(found, earlier.classes, similarity))
    then = classes_then(earlier, alike, len(group))
    same_nodes = then is not None and "" not in then and len(then) == len(earlier.label)
    sizes = f"The earlier graph has {len(earlier.label):,} nodes, this one {len(group):,}."
    notes = [ON_SAME_NODES if same_nodes else sizes, alike.note, ON_INTERVALS]
    unknown = int((earlier.label == num_classes).sum())
    if unknown and alike.pairs is None:
        was = f"The earlier model predicted {text.counted(unknown, 'node')} of its graph as unknown"
        notes.append(f"{was}. A class that is called new or named may be among them.")
    table = changes(found, earlier, alike)
    return found, Changes(table, notes, then, classes_now(found), same_nodes)

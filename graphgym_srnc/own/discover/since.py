"""Classes over time: how the classes of a graph have changed since the graph of an earlier model.

New clusters get the names of earlier classes that no class of today has. Then classes are equal if
their names are, and the nodes that both models predict are counted.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np
import pandas
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score
from torch import Tensor

from graphgym_srnc.core import text
from graphgym_srnc.own.discover.clusters import Discovery

GONE = 0.1  # share of its earlier share that a class may keep by errors of the models
SAME_NODES = 0.5  # least kappa of the classes of shared ids if these name the same nodes
UNKNOWN = "unknown"
HEADS = [
    "class",
    "status",
    "nodes then",
    "nodes now",
    "share then",
    "share now",
    "change in points",
    "class by the earlier model",
]
ON_INTERVALS = (
    "Intervals of the change are 95 % intervals of Newcombe (1998). They treat nodes as independent"
    " and leave out errors of the models."
)


class Earlier(NamedTuple):
    """What an earlier model predicts for its own graph, and for the graph of today.

    Args:
        classes: names of its :math:`N` known classes.
        then: posterior of the nodes of its own graph, ``[U, N]`` or ``[U, N + 1]``.
        now: posterior of the nodes of the graph of today, ``[V, N]`` or ``[V, N + 1]``.
        ids: of the nodes of its own graph, if they have any.
    """

    classes: list[str]
    then: Tensor
    now: Tensor
    ids: Sequence[str] | None


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
        notes: sentences on the nodes and on the intervals.
    """

    table: pandas.DataFrame
    notes: list[str]

    @property
    def cells(self) -> list[list[str]]:
        """The table in print, its head first."""
        lines = [HEADS]
        for row in self.table.itertuples():
            low, high = (f"{100 * end:+.1f}" for end in (row.low, row.high))
            earlier = ""
            if row.now:
                earlier = f"{text.plain(row.earlier_class)} {100 * row.earlier_share:.0f} %"
            line = [
                text.plain(row.name),
                row.status,
                f"{row.then:,}",
                f"{row.now:,}",
                f"{100 * row.share_then:.1f} %",
                f"{100 * row.share_now:.1f} %",
                f"{100 * row.change:+.1f} ({low} to {high})",
                earlier,
            ]
            lines.append(line)
        return lines

    @property
    def lines(self) -> list[str]:
        """The table and the notes as lines of text."""
        return ["classes over time", *text.aligned(self.cells).splitlines(), *self.notes]


def membership(earlier: Earlier, ids: Sequence[str] | None) -> tuple[np.ndarray, list[str]]:
    """Earlier class of each node of today, as probabilities ``[V, N + 1]``, and notes on the ids.

    It is the class that the earlier model predicted in its own graph if the node has an id in both,
    and otherwise the model's posterior.
    """
    size = len(earlier.classes) + 1
    belongs = np.zeros((len(earlier.now), size))
    belongs[:, : earlier.now.size(1)] = earlier.now.numpy()
    place = {id: node for node, id in enumerate(earlier.ids or ())}
    pairs = [(node, place[id]) for node, id in enumerate(ids or ()) if id in place]
    if not pairs:
        return belongs, []
    shared, was = np.array(pairs).T
    before = earlier.then.argmax(1).numpy()[was]
    count = text.counted(len(shared), "node")
    # Row numbers are ids as well, and name other nodes in each table.
    if cohen_kappa_score(before, belongs[shared].argmax(1)) < SAME_NODES:
        note = f"{count} have an id of the earlier graph, but the earlier model predicts another"
        return belongs, [f"{note} class for most of them. Therefore ids are not compared."]
    belongs[shared] = np.eye(size)[before]
    return belongs, [f"{count} are in both graphs, by their ids."]


def carried_names(found: Discovery, classes: Sequence[str], belongs: np.ndarray) -> dict[int, str]:
    """Earlier names of new clusters without a name, by number of the cluster.

    The Hungarian method assigns each cluster to a class of its own that no class of today has, or
    to none, so that most nodes keep their earlier class. Further clusters of such a class follow.

    Args:
        found: the clusters, some of whose new ones may have names.
        classes: names of the earlier classes.
        belongs: earlier class of each node, see :func:`membership`.

    References:
        Kuhn, The Hungarian method for the assignment problem (Naval Research Logistics Quarterly
        1955).
    """
    taken = {cluster.name for cluster in found.every}
    free = [k for k, name in enumerate(classes) if name not in taken]
    clusters = [new for new in found.new if not new.name]
    if not free or not clusters:
        return {}
    nodes = np.stack([belongs[new.nodes.numpy()].sum(0) for new in clusters])
    kept = nodes[:, free]
    none = nodes.sum(1) - kept.sum(1)
    choices = np.concatenate([kept, np.repeat(none[:, None], len(clusters), 1)], 1)
    _, column = linear_sum_assignment(choices, maximize=True)
    follows = np.where(kept.max(1) > none, kept.argmax(1), len(free))
    column = np.where(column < len(free), column, follows)
    return {
        new.number: classes[free[k]] for new, k in zip(clusters, column.tolist()) if k < len(free)
    }


def changes(found: Discovery, earlier: Earlier, belongs: np.ndarray) -> pandas.DataFrame:
    """A row per class: its status, and numbers of nodes and shares of all nodes then and now.

    The status is *new*, *grown*, *shrunk*, *unchanged* or *gone*. A class is gone if less than
    :data:`GONE` of its earlier share is left, and unchanged if the 95 % interval of the ``change``
    of its share, from ``low`` to ``high``, contains 0. Candidates without an earlier class count
    as their predicted class. ``earlier_class`` is what the earlier model predicts for most of the
    nodes of today, and ``earlier_share`` for which share of them.

    Args:
        found: the clusters with their names.
        earlier: what the earlier model predicts.
        belongs: earlier class of each node, see :func:`membership`.
    """
    counts_then = earlier.then.argmax(1).bincount(minlength=len(belongs[0])).tolist()
    then = dict(zip(earlier.classes, counts_then))
    classes = np.array([*found.classes, UNKNOWN], dtype=object)[found.label.numpy()]
    for new in found.new:
        if new.name or found.seeds.predicted:
            classes[new.nodes.numpy()] = new.name or f"cluster {new.number}"
    names = [*dict.fromkeys([*then, *found.classes, *classes])]
    rows = []
    for name in names:
        nodes = np.flatnonzero(classes == name)
        change = _change((then.get(name, 0), len(nodes)), (len(earlier.then), len(belongs)))
        kept = belongs[nodes].sum(0)
        earlier_class = [*earlier.classes, UNKNOWN][kept.argmax()] if len(nodes) else ""
        status = _status(change, name in then)
        share = kept.max() / max(len(nodes), 1)
        rows.append([name, status, *change, earlier_class, share])
    columns = ["name", "status", *Change._fields, "earlier_class", "earlier_share"]
    table = pandas.DataFrame(rows, columns=columns)
    return table[table["name"] != UNKNOWN].reset_index(drop=True)


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


def _status(change: Change, is_earlier: bool) -> str:
    """What has become of a class, see :func:`changes`."""
    if not is_earlier:
        return "new"
    if change.share_now < GONE * change.share_then:
        return "gone"
    if change.low > 0:
        return "grown"
    return "shrunk" if change.high < 0 else "unchanged"


def compare(
    found: Discovery, earlier: Earlier, ids: Sequence[str] | None
) -> tuple[Discovery, Changes]:
    """The clusters with the names of earlier classes, and how all classes have changed.

    Args:
        found: the clusters; those with a name keep it.
        earlier: what the earlier model predicts.
        ids: of the nodes of today, if they have any.
    """
    belongs, notes = membership(earlier, ids)
    names = {new.number: new.name for new in found.new if new.name}
    found = found.named(names | carried_names(found, earlier.classes, belongs))
    unknown = int((earlier.then.argmax(1) == len(earlier.classes)).sum())
    sizes = f"The earlier graph has {len(earlier.then):,} nodes, this one {len(belongs):,}."
    if unknown:
        was = f"The earlier model predicted {text.counted(unknown, 'node')} of its graph as unknown"
        notes.append(f"{was}. A class that is called new may be among them.")
    return found, Changes(changes(found, earlier, belongs), [sizes, *notes, ON_INTERVALS])

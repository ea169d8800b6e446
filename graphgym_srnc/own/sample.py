"""Nodes drawn at random for the user to label, whose labels judge the predictions."""

from __future__ import annotations

from typing import Collection, Mapping, NamedTuple, Sequence

import numpy as np
import pandas
import torch
from torch_geometric.data import Data

from graphgym_srnc.core.task import DRAWN_MASK, covers
from graphgym_srnc.core.text import aligned, counted
from graphgym_srnc.data.labels import SAMPLE, UNKNOWN
from graphgym_srnc.train.held_out import share

SIZE = 100  # the 95 % interval of a share is then at most 20 points wide


class Sample(NamedTuple):
    """Labels that the user gave to nodes drawn at random.

    Args:
        label: their classes by node; ``unknown`` = none that has labels.
        skipped: number of nodes before the last one with a label that have none.
    """

    label: Mapping[int, str]
    skipped: int


def draw(graph: Data, labelled: Collection[int]) -> list[int]:
    """Unlabelled nodes in random order, at most :data:`SIZE`.

    If labels are of another time than many nodes, they are nodes of another time, since no other
    labels judge their predictions.

    Args:
        graph: the graph, perhaps with ``drawn_mask``, see ``ShiftTask``.
        labelled: nodes with a label.
    """
    is_free = torch.ones(graph.num_nodes, dtype=torch.bool)
    is_free[[*labelled]] = False
    if not covers(graph, torch.tensor([*labelled], dtype=torch.long)):
        is_free &= ~graph[DRAWN_MASK]
    nodes = is_free.nonzero().ravel().numpy()
    return np.random.default_rng(0).permutation(nodes)[:SIZE].tolist()


def table(frame: pandas.DataFrame, nodes: Sequence[int]) -> pandas.DataFrame:
    """The rows of a table of predictions for nodes to label, without what is predicted.

    Who sees a prediction tends to agree with it.
    """
    names = [name for name in ("node", "id", "title", "date") if name in frame]
    rows = frame.set_index("node", drop=False).loc[[*nodes], names]
    return rows.assign(**{SAMPLE: range(1, len(nodes) + 1)})


def on_accuracy(sample: Sample, predicted: Sequence[str], classes: Collection[str]) -> list[str]:
    """How many nodes of a sample a run predicts right; a line each.

    A node of a class without labels is right if it is predicted as unknown.

    Args:
        sample: labels of nodes drawn at random.
        predicted: the predicted class of every node.
        classes: the known classes.
    """
    if not sample.label:
        return []
    rows = pandas.DataFrame(
        {
            "is_known": [label in classes for label in sample.label.values()],
            "is_right": [
                predicted[node] == (label if label in classes else UNKNOWN)
                for node, label in sample.label.items()
            ],
            "is_unknown": [predicted[node] == UNKNOWN for node in sample.label],
        }
    )
    parts = {
        "all": rows,
        "of known classes": rows[rows.is_known],
        f"of other classes, right as {UNKNOWN}": rows[~rows.is_known],
        f"predicted as {UNKNOWN}, right if of other classes": rows[rows.is_unknown],
    }
    lines = [["  nodes", "number", "right", "95 % interval"]]
    for name, own in parts.items():
        if len(own):
            found = share(own.is_right.sum(), len(own))
            interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
            right = f"{100 * found['accuracy']:.1f} %"
            lines.append([f"  {name}", f"{len(own):,}", right, interval])
    head = f"accuracy of the run on {counted(len(rows), 'node')} drawn at random"
    if sample.skipped:
        least = rows.is_right.sum() / (len(rows) + sample.skipped)
        head += f" ({sample.skipped:,} skipped; {100 * least:.1f} % if these are wrong)"
    return [f"{head}:", *aligned(lines).splitlines()]

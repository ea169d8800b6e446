"""The split of a data set itself: masks of one graph, or states of a graph that grows."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import catalogue, datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import given, splits
from graphgym_srnc.shifts.splits import Nodes

HELD_OUT = 0.2  # share of labelled nodes of the first state that is held out there


def build(*, name: str = "", root: str = "", split_seed: int = 0) -> ShiftTask:
    """Build a task in close-set shift from a data set with its own training and test nodes.

    A data set with masks is one graph. One with three states, as GraphLand with the split ``THI``,
    trains on the first, validates on the second and is tested on the third. Nodes that the first
    state does not have are the target nodes.

    Args:
        name: data set with the arguments of its class, which ``dataset.args`` sets, for example
            ``GraphLandDataset/tolokers-2?split=TH``.
        root: data folder.
        split_seed: seed of the held-out nodes of the first of three states; selects one of several
            splits.

    Raises:
        InputError: the data set has no training, validation and test nodes, or a class has no
            training node.
    """
    first, *later = datasets.load_all(name, root)
    states = [first, *later] if later else [first] * 3
    masks = [_nodes(data, mask, name, split_seed) for data, mask in zip(states, given.MASKS)]
    train, val, test = masks
    classes = splits.classes_of(first.y[train])
    absent = {*splits.classes_of(torch.cat([data.y for data in states]))} - {*classes}
    if absent:
        raise InputError.plain(
            "name",
            f"no training node of {name} has class {', '.join(map(str, sorted(absent)))}",
            "Use another split of the data set",
        )
    class_names = tuple(catalogue.CLASS_NAMES.get(catalogue.full_name(name), ()))
    info = {"data": name, "split": "given", "split_seed": split_seed}
    title = f"own_split/{name}"
    if not later:
        nodes = Nodes(train, val, test)
        return splits.masked_task(
            title, first, (), nodes, open_set=False, class_names=class_names, info=info
        )

    source, validation, target = (splits.relabelled(data, classes) for data in states)
    order = train[splits.shuffled(len(train), split_seed, "nodes")]
    held, rest = splits.cut(order, round(HELD_OUT * len(order)))
    return ShiftTask(
        title,
        source,
        target,
        rest.sort().values,
        val,
        test,
        pool=(states[-1].node_year > 0).nonzero().view(-1),
        num_known=len(classes),
        open_set=False,
        val_graph=validation,
        source_val=held.sort().values,
        class_names=class_names,
        info=info | {"unseen": [], "cleaned": dict(states[-1].cleaned)},
    )


def _nodes(data: Data, mask: str, name: str, split_seed: int) -> torch.Tensor:
    """The labelled nodes of a mask of a data set."""
    if mask not in data:
        raise InputError.plain("name", f"{name} has no {mask}", "Use `shift='open_set'`")
    chosen = splits.column(data[mask], split_seed) & (data.y >= 0)
    return chosen.nonzero().view(-1)

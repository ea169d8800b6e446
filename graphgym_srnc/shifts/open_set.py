"""Open-set shift: some classes of a graph lose their labels and become the unknown class."""

from __future__ import annotations

from typing import Annotated, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.options import Count, Natural, OneOf
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data import catalogue, datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import CountOrRest, Nodes, Sizes, Split


def build(
    *,
    name: str = "Cora",
    root: str = "",
    split_seed: int = 0,
    num_unseen: Natural = 3,
    unseen: list[int] = [],  # noqa: B006
    labels_per_class: CountOrRest = 20,
    split: Split = "auto",
    num_val: Count = 500,
    num_test: CountOrRest = 1000,
    labelled: Annotated[str, OneOf("drawn", "public")] = "drawn",
    unseen_nodes: Annotated[str, OneOf("split", "all", "balanced")] = "split",
    unscored: list[int] = [],  # noqa: B006
) -> ShiftTask:
    """Mask classes of a public data set (Table 1 of the paper).

    The pool contains every unlabelled node, including validation and test nodes, whose labels are
    never used (transductive setting). The oracle uses the same split, and labels the same number of
    nodes of each masked class.

    Args:
        name: data set, for example ``Cora`` or ``Photo``, see ``graphgym-srnc data list``.
        root: data folder.
        split_seed: seed of the masked classes and of all sampled nodes.
        num_unseen: number of classes to mask, drawn with ``split_seed``; 0 = none, thus no shift.
        unseen: original ids of the classes to mask; overrides ``num_unseen``.
        labels_per_class: number of labelled nodes of each known class; -1 = all that remain.
        split: validation and test nodes: the data set's own (``public``; ``split_seed`` selects one
            of several splits), drawn (``random``), or ``auto``, which uses public nodes if any.
        num_val: number of validation nodes of a random split; reduced on a small graph.
        num_test: number of test nodes of a random split, as ``num_val``; -1 = all others, always.
        labelled: labelled nodes of known classes: ``drawn`` at random, or the data set's own
            training nodes (``public``), as in other protocols.
        unseen_nodes: which nodes of masked classes are scored. ``split``: those of the split.
            ``all``: all of them are test nodes, none is in validation, and there is no oracle.
            ``balanced``: half of ``num_val`` and half of ``num_test`` are drawn from masked
            classes, and half from known classes.
        unscored: original ids of masked classes to exclude from validation and test.

    Raises:
        InputError: the data set, split or a class is unknown, or there are too few nodes.
    """
    data = datasets.load(name, root)
    masked = splits.choose_unseen(splits.classes_of(data.y), num_unseen, unseen, split_seed)
    if not set(unscored) <= set(masked):
        raise InputError("unscored", list(unscored), f"some of the masked classes {masked}")
    val, test = splits.public(data, split, split_seed, name)
    if unseen_nodes == "balanced":
        val = test = None
    count = labels_per_class
    sizes = Sizes(num_val, num_test, split_seed)
    if labelled == "public":
        count = splits.REST
    nodes = splits.draw(data.y, masked, count, sizes, val, test)
    if labelled == "public":
        nodes = _publicly_labelled(nodes, data, masked, split_seed, name)
    nodes = _with_unseen(nodes, data.y, masked, unseen_nodes, unscored, sizes)
    full_name = catalogue.full_name(name)
    drawn = val is None
    info = {"data": full_name, "split": "random" if drawn else "public", "split_seed": split_seed}
    return splits.masked_task(
        f"open_set/{name}",
        data,
        masked,
        nodes,
        info=info,
        open_set=bool(masked),
        class_names=catalogue.CLASS_NAMES.get(full_name, ()),
    )


def _publicly_labelled(
    nodes: Nodes, data: Data, unseen: Sequence[int], split_seed: int, name: str
) -> Nodes:
    """The same split, with the data set's own training nodes as labelled nodes."""
    train = splits.column(data.get("train_mask", data.y < HIDDEN), split_seed) & (data.y >= 0)
    if not train.any() or train[torch.cat([nodes.val, nodes.test])].any():
        raise InputError.plain(
            "labelled",
            f"{name} has no public training nodes, or validation and test nodes among them",
            "Set labelled to drawn",
        )
    masked = splits.is_in(data.y, unseen)
    kept, extra = ((train & part).nonzero().view(-1) for part in (~masked, masked))
    return nodes._replace(train=kept, extra=extra)


def _with_unseen(
    nodes: Nodes, y: Tensor, unseen: Sequence[int], kind: str, unscored: Sequence[int], sizes: Sizes
) -> Nodes:
    """The same split, with the nodes of masked classes that ``unseen_nodes`` names."""
    never = splits.is_in(y, unscored)
    masked = splits.is_in(y, unseen) & ~never
    if kind == "all":
        val, test = (part[~masked[part]] for part in (nodes.val, nodes.test))
        test = torch.cat([test, masked.nonzero().view(-1)]).sort().values
        nodes = nodes._replace(val=val, test=test, extra=nodes.extra[:0])
    if kind == "balanced":
        rest = y.index_fill(0, torch.cat([nodes.train, nodes.extra]), HIDDEN)
        few = sizes.num_test if sizes.num_test == splits.REST else sizes.num_test // 2
        half = sizes._replace(num_val=sizes.num_val // 2, num_test=few)
        sides = (rest.masked_fill(~side, HIDDEN) for side in (masked, ~masked & ~never))
        halves = zip(*(splits.draw_val_test(side, half, stream="validation") for side in sides))
        val, test = (torch.cat(parts).sort().values for parts in halves)
        nodes = nodes._replace(val=val, test=test)
    return nodes._replace(val=nodes.val[~never[nodes.val]], test=nodes.test[~never[nodes.test]])

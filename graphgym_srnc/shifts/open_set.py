"""Open-set shift: some classes of a graph lose their labels and become the unknown class."""

from __future__ import annotations

from typing import Annotated

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.options import Count, Natural, OneOf
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import catalogue, datasets
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import CountOrRest, Split


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

    The labelled nodes of each known class are ``labels_per_class`` random nodes that are neither
    validation nor test nodes. The pool contains every unlabelled node, including validation and
    test nodes, whose labels are never used (transductive setting). The oracle uses the same split,
    and labels the same number of nodes of each masked class.

    Args:
        name: data set, for example ``Cora``, ``CitationFull/DBLP``, ``Photo`` or ``ogbn-arxiv``;
            see ``graphgym-srnc data list``.
        root: data folder.
        split_seed: seed of the masked classes and of all sampled nodes.
        num_unseen: number of classes to mask, drawn with ``split_seed``; 0 = none, thus no shift.
        unseen: original ids of the classes to mask; overrides ``num_unseen``.
        labels_per_class: number of labelled nodes of each known class; -1 = all nodes that are
            neither validation nor test nodes.
        split: validation and test nodes: the data set's own (``public``), drawn (``random``), or
            ``auto``, which uses public nodes if there are any. If there are several public splits,
            ``split_seed`` selects one.
        num_val: number of validation nodes of a random split; reduced on a small graph.
        num_test: number of test nodes of a random split; reduced on a small graph; -1 = all other
            nodes, in any split.
        labelled: labelled nodes of known classes: ``drawn`` at random, or the data set's own
            training nodes (``public``), as in other protocols.
        unseen_nodes: which nodes of masked classes are scored. ``split``: those of the split.
            ``all``: all of them are test nodes, none is in validation, and there is no oracle.
            ``balanced``: half of ``num_val`` and half of ``num_test`` are drawn from masked
            classes, and half from known classes.
        unscored: original ids of masked classes to exclude from validation and test.

    Raises:
        InputError: the data set or split is unknown, a class is invalid, or there are too few
            nodes.
    """
    data = datasets.load(name, root)
    masked = splits.choose_unseen(splits.classes_of(data.y), num_unseen, unseen, split_seed)
    if not set(unscored) <= set(masked):
        raise InputError("unscored", list(unscored), f"some of the masked classes {masked}")
    val, test = splits.public(data, split, split_seed, name)
    if unseen_nodes == "balanced":
        val = test = None
    count = splits.REST if labelled == "public" else labels_per_class
    nodes = splits.draw(
        data.y,
        masked,
        labels_per_class=count,
        num_val=num_val,
        num_test=num_test,
        split_seed=split_seed,
        val=val,
        test=test,
    )
    if labelled == "public":
        nodes = splits.publicly_labelled(nodes, data, masked, split_seed, name)
    nodes = splits.with_unseen(
        nodes,
        data.y,
        masked,
        unseen_nodes,
        unscored,
        num_val=num_val,
        num_test=num_test,
        split_seed=split_seed,
    )
    full_name = catalogue.full_name(name)
    info = {
        "data": full_name,
        "split": "random" if val is None else "public",
        "split_seed": split_seed,
    }
    return splits.masked_task(
        f"open_set/{name}",
        data,
        masked,
        nodes,
        info=info,
        open_set=bool(masked),
        class_names=catalogue.CLASS_NAMES.get(full_name, ()),
    )

"""Open-set shift: some classes of one graph lose their labels and become the unknown class."""
from __future__ import annotations

from typing import Annotated

from graphgym_srnc.data import catalogue, datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.options import Count, Natural, OneOf
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import CountOrRest, Split
from graphgym_srnc.task import ShiftTask


def build(*, name: str = "Cora", root: str = "", split_seed: int = 0, num_unseen: Natural = 3,
          unseen: list[int] = [], labels_per_class: CountOrRest = 20,  # noqa: B006
          split: Split = "auto", num_val: Count = 500, num_test: CountOrRest = 1000,
          labelled: Annotated[str, OneOf("drawn", "public")] = "drawn",
          unseen_nodes: Annotated[str, OneOf("split", "all", "balanced")] = "split",
          unscored: list[int] = []) -> ShiftTask:  # noqa: B006
    """Mask classes of a public data set (the paper's first experiment).

    Known classes get ``labels_per_class`` random labelled nodes each, out of the nodes that are
    neither validation nor test. The pool holds every unlabelled node, validation and test included:
    their labels are never used (transductive). The oracle keeps the split and labels as many nodes
    of each masked class.

    Args:
        name: data set, e.g. ``Cora``, ``CitationFull/DBLP``, ``Photo``, ``ogbn-arxiv``; see
            ``graphgym-srnc data list``.
        root: data folder.
        split_seed: decides which classes are masked and which nodes are drawn.
        num_unseen: number of classes to mask, by ``split_seed``; 0 = none, and no shift.
        unseen: original ids of the classes to mask; overrides ``num_unseen``.
        labels_per_class: labelled nodes of each known class; -1 = all that are neither validation
            nor test.
        split: validation and test nodes are the data set's own (``public``), drawn (``random``), or
            the former where there are any (``auto``). Where a data set has several public splits,
            ``split_seed`` chooses.
        num_val: validation nodes of a random split, less on a small graph.
        num_test: test nodes of a random split, less on a small graph; -1 = all other nodes, in any
            split.
        labelled: labelled nodes of known classes are ``drawn``, or those of the data set's own
            training nodes (``public``), as other protocols have it.
        unseen_nodes: which nodes of masked classes are scored: those of the ``split``; ``all`` of
            them as test nodes, with none in validation and no oracle; or ``balanced``, as many as
            of known classes, half of ``num_val`` and of ``num_test`` each, all drawn.
        unscored: original ids of masked classes that are neither in validation nor in test.

    Raises:
        InputError: unknown data set or split, wrong classes, or too few nodes.
    """
    data = datasets.load(name, root)
    masked = splits.choose_unseen(splits.classes_of(data.y), num_unseen, unseen, split_seed)
    if not set(unscored) <= set(masked):
        raise InputError("unscored", list(unscored), f"masked classes, here {masked}")
    val, test = splits.public(data, split, split_seed, name)
    if unseen_nodes == "balanced":
        val = test = None
    count = splits.REST if labelled == "public" else labels_per_class
    nodes = splits.draw(data.y, masked, labels_per_class=count, num_val=num_val,
                        num_test=num_test, split_seed=split_seed, val=val, test=test)
    if labelled == "public":
        nodes = splits.publicly_labelled(nodes, data, masked, split_seed, name)
    nodes = splits.with_unseen(nodes, data.y, masked, unseen_nodes, unscored, num_val=num_val,
                               num_test=num_test, split_seed=split_seed)
    full_name = catalogue.full_name(name)
    info = {"data": full_name, "split": "random" if val is None else "public",
            "split_seed": split_seed}
    return splits.masked_task(f"open_set/{name}", data, masked, nodes, info=info,
                              open_set=bool(masked),
                              class_names=catalogue.CLASS_NAMES.get(full_name, ()))

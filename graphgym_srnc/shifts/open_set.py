"""Open-set shift: some classes of one graph lose their labels and become the unknown class of validation and test."""
from __future__ import annotations

from graphgym_srnc.data import datasets
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import ShiftTask


def build(*, name: str = "Cora", root: str = "", split_seed: int = 0, num_unseen: int = 3, unseen: list[int] = [],  # noqa: B006
          labels_per_class: int = 20, split: str = "auto", num_val: int = 500, num_test: int = 1000, verify: bool = True) -> ShiftTask:
    """Mask classes of a public data set (the paper's first experiment).

    Known classes get ``labels_per_class`` random labelled nodes each, out of the nodes that are neither validation nor test. The
    pool holds every unlabelled node, validation and test included: their labels are never used (transductive). The oracle keeps
    the split and labels as many nodes of each masked class.

    Args:
        name: data set, e.g. ``Cora``, ``CitationFull/DBLP``, ``Photo``, ``ogbn-arxiv``; see ``graphgym-srnc data list``.
        root: data folder.
        split_seed: decides which classes are masked and which nodes are drawn.
        num_unseen: number of classes to mask, drawn from ``split_seed``.
        unseen: original ids of the classes to mask; overrides ``num_unseen``.
        labels_per_class: labelled nodes of each known class; -1 = all that are neither validation nor test.
        split: validation and test nodes are the data set's own (``public``), drawn (``random``), or the former where there are any
            (``auto``). Where a data set has several public splits, ``split_seed`` chooses.
        num_val: validation nodes of a random split, less on a small graph.
        num_test: test nodes of a random split, less on a small graph; -1 = all other nodes, in any split.
        verify: compare Planetoid's pickles with their public SHA-256 before they are read.

    Raises:
        InputError: unknown data set or split, wrong classes, or too few nodes.
    """
    splits.check_split(split, "open_set")
    data = datasets.load(name, root, verify)
    classes = data.y[data.y >= 0].unique().tolist()
    masked = splits.choose_unseen(classes, num_unseen, unseen, split_seed, "open_set")
    val, test = splits.public(data, split, split_seed, "open_set", name)
    nodes = splits.draw(data.y, masked, labels_per_class=labels_per_class, num_val=num_val, num_test=num_test, split_seed=split_seed,
                         section="open_set", val=val, test=test)
    full_name = "/".join(filter(None, datasets.resolve(name)))
    return splits.open_set_task(f"open_set/{name}", data, masked, nodes, class_names=datasets.CLASS_NAMES.get(full_name, ()),
                                 info={"data": full_name, "split": "random" if val is None else "public", "split_seed": split_seed})

"""A user's own graph from files, with its own split or a drawn one; other classes are unknown."""
from __future__ import annotations

from typing import Annotated

import torch
from torch_geometric.data import Data

from graphgym_srnc.data import cleaning, files, tables
from graphgym_srnc.errors import InputError
from graphgym_srnc.options import Count, Natural, OneOf
from graphgym_srnc.shifts import given, splits
from graphgym_srnc.shifts.splits import CountOrRest
from graphgym_srnc.task import HIDDEN, ShiftTask


def build(*, name: str = "", root: str = "", split_seed: int = 0, path: str = "",
          features: str = "", labels: str = "", open_set: bool = True, num_unseen: Natural = 0,
          unseen: list[int] = [], labels_per_class: CountOrRest = 20,  # noqa: B006
          split: Annotated[str, OneOf("auto", "given", "random")] = "auto", num_val: Count = 500,
          num_test: CountOrRest = 1000, mapped: bool = False) -> ShiftTask:
    """Make a task of a graph in files, which are only read.

    ``docs/data.md`` describes every form of them. A ``.mat`` holds ``network``, ``attrb`` and
    ``group``, and is read with ``--trust`` alone. A ``.pt`` or ``.npz`` holds ``x`` ``[V, F]``,
    ``edge_index`` ``[2, E]``, ``y`` ``[V]`` and, if there is a split, ``train_mask``, ``val_mask``,
    ``test_mask`` ``[V]``; no pickled code is run. A folder holds ``edges.*``, ``features.*``,
    ``labels.*`` and, if there is a split, ``split.csv``.

    Edges may be directed, repeated or self-loops: the graph is made undirected and simple. Nodes
    without a label (-1) serve as unlabelled target nodes.

    Args:
        name: the path where ``path`` is empty, and the task's name then; else that is the file's.
        root: folder that a path is looked for in, if it is not found from the working folder.
        split_seed: decides what is drawn.
        path: the graph: ``.pt``, ``.npz``, ``.mat``, a list of edges, or a folder; empty =
            ``dataset.name``.
        features: the feature file beside a list of edges.
        labels: the label file beside a list of edges.
        open_set: whether there is an unknown class; its nodes are those of masked classes and of
            classes without a training node.
        num_unseen: number of classes to mask, drawn from ``split_seed``.
        unseen: ids of the classes to mask; overrides ``num_unseen``. Named labels are numbered in
            alphabetical order.
        labels_per_class: labelled nodes of each known class in a drawn split; -1 = all that are
            neither validation nor test.
        split: ``given`` (the file's masks), ``random`` (drawn), or the former where there are any
            (``auto``). A given training mask without the others is completed by drawn validation
            and test nodes.
        num_val: drawn validation nodes, less on a small graph.
        num_test: drawn test nodes, less on a small graph; -1 = all other labelled nodes.
        mapped: leave features on disk, a ``.npy`` of float32 of which batches read the rows they
            need (docs/scale.md).

    Raises:
        InputError: a file is missing, of unknown kind or not what it should be; the graph or its
            labels make no task.
    """
    source = files.locate(path or name, root, "path")
    fields, names = files.load(source, features, labels, root, mapped)
    key = f"file.path {source.name}"
    data = cleaning.clean(files.as_data(fields, key), key)
    if not names and (source.is_dir() or source.suffix in (*tables.SUFFIXES, ".mat")):
        names = _renumber(data)
    classes = splits.classes_of(data.y)
    if classes != list(range(len(classes))) or len(classes) < 2:
        allowed = "labels 0, 1, ... of two classes or more without a gap, or -1 where there is none"
        raise InputError(f"{key}: y", classes, allowed)
    if not open_set and (unseen or num_unseen):
        raise InputError("open_set", open_set, "True where unseen or num_unseen masks classes")
    masked = splits.choose_unseen(classes, num_unseen, unseen, split_seed)

    is_given = split != "random" and "train_mask" in data
    if split == "given" and not is_given:
        raise InputError("split", split, "random or auto: the file has no train_mask")
    sizes = {"num_val": num_val, "num_test": num_test, "split_seed": split_seed}
    if is_given:
        masked, nodes = _given_split(data, masked, open_set, sizes, key)
    else:
        nodes = splits.draw(data.y, masked, labels_per_class=labels_per_class, **sizes)
    info = {"data": source.name, "split": "given" if is_given else "random",
            "split_seed": split_seed}
    info |= {"unread": files.weights(fields)} if files.weights(fields) else {}
    title = source.stem if path else name
    return splits.masked_task(f"file/{title}", data, masked, nodes, info=info,
                              open_set=open_set, class_names=names)


def _renumber(data: Data) -> tuple[str, ...]:
    """Number from 0 classes that have numbers as names, such as 10, 20, 30, and tell the names."""
    classes = splits.classes_of(data.y)
    if classes == list(range(len(classes))):
        return ()
    data.y = splits.renumbered(data.y, classes)
    return tuple(map(str, classes))


def _given_split(data: Data, masked: list[int], open_set: bool, sizes: dict[str, int],
                 key: str) -> tuple[list[int], splits.Nodes]:
    """The masked classes and the nodes of a split that comes with the data."""
    masks = given.masked_nodes(data, key)
    train, val, test = masks["train_mask"], masks.get("val_mask"), masks.get("test_mask")
    untaught = {*splits.classes_of(data.y)} - {*splits.classes_of(data.y[train])}
    masked = sorted({*masked, *untaught})
    if masked and not open_set:
        allowed = "a training node of each class, or file.open_set True"
        raise InputError(f"{key}: train_mask", f"no node of class {masked}", allowed)
    if val is None or test is None:
        rest = data.y.index_fill(0, train, HIDDEN)
        val, test = splits.draw_val_test(rest, **sizes, val=val, test=test)
    known = ~torch.isin(data.y[train], torch.tensor(masked, dtype=torch.long))
    return masked, splits.Nodes(train[known], val, test, train[~known])

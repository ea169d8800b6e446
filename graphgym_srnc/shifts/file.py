"""Shift of your own graph in files, with its own split or a random one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Sequence

from torch_geometric.data import Data

from graphgym_srnc.core.options import Count, Natural, OneOf
from graphgym_srnc.core.task import HIDDEN, ShiftTask, check_number
from graphgym_srnc.core.text import tell_once
from graphgym_srnc.data import files, folder_files
from graphgym_srnc.data.labels import CHOSEN
from graphgym_srnc.errors import InputError, not_one_of, renamed
from graphgym_srnc.shifts import given, splits
from graphgym_srnc.shifts.splits import CountOrRest, Nodes, SizeOrRest, Sizes


def build(
    *,
    name: str = "",
    root: str = "",
    split_seed: int = 0,
    path: str = "",
    open_set: bool = True,
    num_unseen: Natural = 0,
    unseen: list[int | str] = [],  # noqa: B006
    labels_per_class: CountOrRest = 20,
    split: Annotated[str, OneOf("auto", "given", "random")] = "auto",
    num_val: Count = 500,
    num_test: SizeOrRest = 1000,
) -> ShiftTask:
    """Build a task from a graph in files, which are never modified.

    ``docs/reference/data.md`` describes all formats. A ``.pt`` or ``.npz`` file holds ``x``
    ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]`` and optionally masks of a split.
    A folder holds ``edges.*``, ``features.*``, ``labels.*`` and optionally ``split.csv``.
    The graph becomes undirected and simple. Nodes without a label (-1) are unlabelled target nodes.

    Args:
        name: path of the graph and name of the task, if ``path`` is empty.
        root: folder to search if the path is not found relative to the working folder.
        split_seed: seed of all that is drawn at random; it also selects one of several splits
            ``[V, K]`` in the file.
        path: the graph: ``.pt``, ``.npz`` or a folder; empty = ``dataset.name``.
        open_set: whether masked classes and those without a training node are the unknown class.
        num_unseen: number of classes to mask, drawn with ``split_seed``.
        unseen: names of the classes to mask, or their numbers if they have no names; overrides
            ``num_unseen``.
        labels_per_class: number of training nodes of each class in a random split; -1 = the rest.
        split: ``given`` uses the masks in the file, ``random`` draws a split, ``auto`` uses the
            masks if the file has any. Missing validation and test masks are drawn at random.
        num_val: number of validation nodes of a random split; reduced on a small graph.
        num_test: number of test nodes of a random split, as ``num_val``; 0 = none, -1 = all others.

    Raises:
        InputError: a file is missing, has an unknown format or invalid content, or the graph and
            its labels do not form a task.
    """
    source = files.locate(path or name, root, "path")
    fields, names = files.load(source)
    key = source.name
    data = files.as_data(fields, key)
    several = [mask for mask in files.MASKS if mask in data and data[mask].dim() == 2]
    for mask in several:
        data[mask] = splits.column(data[mask], split_seed)
    names = _number_classes(data, names, source, key)
    classes = splits.classes_of(data.y)
    if not open_set and (unseen or num_unseen):
        raise InputError.plain(
            "open_set",
            "masked classes (unseen, num_unseen) need an unknown class",
            "Set open_set to True",
        )
    masked = splits.choose_unseen(
        classes, num_unseen, _numbers(unseen, names or [*map(str, classes)]), split_seed
    )

    if masked and not num_test and "test_mask" not in data:
        raise InputError.plain(
            "num_test",
            "classes are masked (unseen, num_unseen) in order to test, without a test node",
            "Set num_test to 100, for example",
        )
    read = files.FIELDS if split == "auto" and "train_mask" not in data else files.READ
    is_given = split != "random" and "train_mask" in data
    if split == "given" and not is_given:
        raise InputError.plain("split", "the file has no train_mask", "Set split to random or auto")
    sizes = Sizes(num_val, num_test, split_seed)
    if is_given:
        masked, nodes = _given_split(data, masked, open_set, sizes, key)
    else:
        nodes = splits.draw(data.y, masked, labels_per_class, sizes)
        if len(nodes.test) < num_test:
            tell_once(
                f"num_test is {num_test:,}, but {len(nodes.test):,} nodes are tested, since"
                " too few have labels"
            )
    info = {
        "data": source.name,
        "split": "given" if is_given else "random",
        "split_seed": split_seed,
    }
    optional: dict[str, str | int] = {
        "unread": files.unread(fields, read),
        "labels from discover": len(folder_files.of_origin(folder_files.origins(source), *CHOSEN)),
    }
    info |= {key: value for key, value in optional.items() if value}
    title = f"file/{source.stem if path else name}"
    with renamed(dict.fromkeys(("train", "val", "test"), source.name)):
        return splits.masked_task(
            title,
            data,
            masked,
            nodes,
            info=info,
            open_set=open_set,
            class_names=names,
            val_may_teach=not is_given,
            scored=num_test != 0 or "test_mask" in data,
        )


def _number_classes(data: Data, names: tuple[str, ...], source: Path, key: str) -> tuple[str, ...]:
    """Number the classes of a graph from 0, and return their names, if there are any."""
    classes = splits.classes_of(data.y)
    check_number(len(classes), f"{key}: y")
    numbers = [*range(len(classes))]
    if not names and classes != numbers and source.is_dir():  # named 10, 20, 30, for example
        names = tuple(map(str, classes))
        data.y = splits.renumbered(data.y, classes)
        classes = numbers
    if len(classes) < 2 or classes != numbers:
        raise InputError.plain(
            f"{key}: y",
            f"the classes are {classes}",
            "Label nodes of two classes or more. Number the classes from 0 without a gap, and "
            "use -1 for unlabelled nodes",
        )
    return names


def _numbers(unseen: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """Numbers of classes by their names, or by their numbers if no name is a number.

    Raises:
        InputError: a class has no such name.
    """
    number = {name: k for k, name in enumerate(names)}
    if not any(name.lstrip("-").isdecimal() for name in names):
        number |= {str(k): k for k in range(len(names))}
    for one in unseen:
        if str(one) not in number:
            raise not_one_of("unseen", one, names)
    return [number[str(one)] for one in unseen]


def _given_split(
    data: Data, masked: list[int], open_set: bool, sizes: Sizes, key: str
) -> tuple[list[int], Nodes]:
    """Masked classes and nodes of a split that the file provides."""
    masks = given.masked_nodes(data, key)
    train = masks["train_mask"]
    val = masks.get("val_mask")
    test = masks.get("test_mask")
    untaught = {*splits.classes_of(data.y)} - {*splits.classes_of(data.y[train])}
    masked = sorted({*masked, *untaught})
    if masked and not open_set:
        raise InputError.plain(
            f"{key}: train_mask",
            f"class {', '.join(map(str, masked))} has no training node",
            "Add a training node of each class, or set `open_set=True`",
        )
    if val is None or test is None:
        val, test = splits.draw_val_test(data.y.index_fill(0, train, HIDDEN), sizes, val, test)
    hidden = splits.is_in(data.y[train], masked)
    return masked, Nodes(train[~hidden], val, test, train[hidden])

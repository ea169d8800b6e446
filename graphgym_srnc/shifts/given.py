"""Tasks from graphs in memory, and validation of graphs and masks given by the user."""

from __future__ import annotations

from numbers import Real
from typing import Any, Collection, Sequence

import numpy as np
import pandas
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.task import CHOSEN_MASK, DRAWN_MASK, HIDDEN, ShiftTask
from graphgym_srnc.core.text import listed, warn
from graphgym_srnc.data import cleaning, files
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.data.labels import UNKNOWN
from graphgym_srnc.data.labels import cleaned as clean_words
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits

MAY_BE_UNKNOWN = (
    "{} of {} nodes have no label and may belong to an unknown class, so some of them are predicted"
    " as unknown. If all of them belong to the classes of the training nodes, set open_set=False;"
    " otherwise set open_set=True."
)
ONLY_KNOWN = (
    "Every node gets one of the classes of the training nodes. If some unlabelled nodes may belong"
    " to other classes, set open_set=True; otherwise set open_set=False."
)
OUTSIDE = (
    "There is an unknown class, since no training node has a label of these: {}. If one is a typing"
    " error, correct it; otherwise set open_set=True or False."
)


def from_data(
    source: Data,
    target: Data | None = None,
    *,
    open_set: bool | None = None,
    held_out: float = 0.0,
    seed: int = 0,
) -> tuple[ShiftTask, np.ndarray]:
    """Build a task from graphs in memory that have their own split.

    The split is given by ``train_mask``, ``val_mask`` and ``test_mask``, of which only the first is
    required; labels outside the masks are not used. ``chosen_mask`` says which nodes have a label
    because of what a model predicted, so that it must not judge, and ``drawn_mask`` from which
    nodes labels were drawn at random (default: all). Classes without a training node are unknown.
    With two graphs, validation and test nodes belong to the target. The source's ``val_mask`` is
    then held out, and serves for validation if the target has none.

    Args:
        source: the labelled graph. If there is a target, all labelled source nodes are training
            nodes unless there is a ``train_mask``. Labels are read by ``labels``.
        target: the graph to predict; None = ``source``.
        open_set: whether there is an unknown class. None = whether a node of either graph has a
            label that no training node has or, on one graph, no label.
        held_out, seed: in open-set shift without other validation nodes, the share of each class's
            training nodes to use for validation, and the seed of their choice.

    Returns:
        The task, and the original label of each class; ``unknown`` or -1 for the unknown class.
    """
    given = {"graph": source} if target is None else {"source": source, "target": target}
    graphs, values = _numbered(given)
    source = graphs[0]
    target = graphs[-1]
    train, source_val, val, test = _split(source, target)
    known = source.y[train].unique()
    classes = values[known.numpy()]
    if len(known) < 2:
        raise InputError.plain(
            "train_mask",
            f"the classes of training nodes are {classes.tolist()}",
            "Label nodes of two classes or more",
        )
    sets = ((source, train), (source, source_val), (target, val), (target, test))
    open_set, doubt = _unknown_class(graphs, sets, values, open_set)
    for graph in graphs:
        graph.y_true = torch.full_like(graph.y, HIDDEN)
    for graph, nodes in sets:
        graph.y_true[nodes] = graph.y[nodes]
    for graph in graphs:
        graph.y = splits.renumbered(graph.y_true, known.tolist())

    takes = bool(open_set and held_out) and not len(val) and not len(source_val)
    if takes:
        train, held = _hold_out(source.y, train, held_out, seed)
        val, source_val = (held, source_val) if source is target else (val, held)
    is_source = len(source_val) > 0 and not len(val)
    pool = splits.others(target.num_nodes, train if source is target else train[:0])
    task = ShiftTask(
        "data",
        source,
        target,
        train,
        source_val if is_source else val,
        test,
        pool=pool if len(pool) else train,  # every node is labelled, as in a refit after search
        num_known=len(known),
        open_set=open_set,
        val_graph=source if is_source else None,
        source_val=source_val,
        class_names=tuple(map(str, classes.tolist())),
        scored=False,
        held_out=takes,
        warnings={"inferred open_set": doubt} if doubt else {},
    )
    unknown = UNKNOWN if classes.dtype.kind == "U" else HIDDEN
    return task, np.append(classes, unknown) if open_set else classes


def _unknown_class(
    graphs: Sequence[Data],
    sets: Sequence[tuple[Data, Tensor]],
    values: np.ndarray,
    open_set: bool | None,
) -> tuple[bool, str]:
    """Whether there is an unknown class, and how that was inferred if there is doubt, else "".

    ``sets`` are the training nodes and the other sets of nodes with their graphs.
    """
    train, *others = (splits.classes_of(graph.y[nodes]) for graph, nodes in sets)
    new = sorted({*splits.classes_of(torch.cat([graph.y for graph in graphs]))} - {*train})
    labelled = {*train}.union(*others)
    if open_set is None:
        outside = sorted({*new} - labelled)
        bare = int((graphs[-1].y < 0).sum())
        if outside:
            return True, OUTSIDE.format(listed([*map(str, values[outside].tolist())]))
        if new or not bare:
            return bool(new), ""
        size = graphs[-1].num_nodes
        if len(graphs) == 1:
            return True, MAY_BE_UNKNOWN.format(f"{bare:,}", f"{size:,}")
        is_unsure = 2 * bare > size and not any(len(nodes) for _, nodes in sets[1:])
        return False, ONLY_KNOWN if is_unsure else ""
    untaught = sorted({*new} & labelled)
    if untaught and not open_set:
        raise InputError.plain(
            "open_set",
            f"the classes {values[untaught].tolist()} have no training node",
            "Set open_set to True, or add training nodes of them",
        )
    return open_set, ""


def unlabelled(data: Data, key: str = "graph", exact: bool = False) -> Data:
    """Validated features, ``exact`` or narrowed, and edges of a graph to predict, on the CPU."""
    if not isinstance(data, Data):
        raise InputError.plain(
            key,
            f"the graph is a {type(data).__name__}",
            "Give a torch_geometric.data.Data with x and edge_index. Labels and "
            "masks are its fields y and train_mask",
        )
    fields = files.with_edges(data.to_dict())
    found = Data.from_dict(files.tensors(fields, ("x", "edge_index", "edge_weight"), key))
    x, edge_index = cleaning.features_and_edges(found, key, exact)
    edge_index, weight = cleaning.weighted_edges(found.edge_weight, edge_index, len(x), key)
    return Data(x=x, edge_index=edge_index, edge_weight=weight, num_nodes=len(x))


def masked_nodes(data: Data, key: str, masks: Sequence[str] = MASKS) -> dict[str, Tensor]:
    """Ids of the nodes of each mask that a graph has, all with a label, by name of the mask."""
    ids: dict[str, Tensor] = {}
    for mask in (mask for mask in masks if mask in data):
        found = cleaning.mask(data[mask], data.num_nodes, f"{key}: {mask}")
        ids[mask] = found.nonzero().view(-1)
        bare = ids[mask][data.y[ids[mask]] < 0]
        if len(bare):
            raise InputError.plain(
                f"{key}: {mask}",
                f"{len(bare)} of its nodes have no label, such as node {int(bare[0])}",
                "Put only labelled nodes into it",
            )
    return ids


def _split(source: Data, target: Data) -> list[Tensor]:
    """Training and held-out nodes of the source, and validation and test nodes of the target."""
    none = torch.empty(0, dtype=torch.long)
    if source is target:
        ids = masked_nodes(source, "graph")
        held = none
        if "train_mask" not in ids:
            raise InputError.plain(
                "graph: train_mask",
                "the graph has no training mask",
                "Add a mask [V] of the nodes to learn from; other labels are not read",
            )
    else:
        at_source = masked_nodes(source, "source", MASKS[:2])
        ids = masked_nodes(target, "target", MASKS[1:])
        held = at_source.get("val_mask", none)
        every = (source.y.index_fill(0, held, HIDDEN) >= 0).nonzero().view(-1)
        ids["train_mask"] = at_source.get("train_mask", every)
    return [ids["train_mask"], held, ids.get("val_mask", none), ids.get("test_mask", none)]


def labels(
    y: Any,
    num_nodes: int,
    key: str,
    kept: Collection[Any] = (),
    held: Sequence[bool] = (),
    said: Collection[str] = (),
) -> np.ndarray:
    """Labels ``[V]`` as integers or words; -1 or an empty string = no label.

    NaN, None and words such as ``?`` mean no label. Labels that mix words and numbers are words.

    ``y`` is a tensor, array or sequence ``[V]`` or ``[V, 1]``. Words in ``kept`` are classes even
    if they usually mean no label. ``held`` are validation and test nodes, see ``labels.cleaned``.
    Warnings in ``said`` are not repeated.
    """
    if not isinstance(y, Tensor):
        try:
            y = np.asanyarray(y) if hasattr(y, "dtype") else np.array(y, dtype=object)
        except Exception:  # of rows of different lengths, or of a foreign object
            y = np.array(type(y).__name__, dtype=object)
    if isinstance(y, Tensor) or y.dtype.kind in "biuf":
        y = files.tensors({"y": y}, ("y",), key.removesuffix(": y"))["y"]
        return cleaning.labels(y, num_nodes, key).numpy()
    if y.shape not in ((num_nodes,), (num_nodes, 1)):
        raise InputError.plain(
            key,
            f"the labels have the shape {y.shape}",
            f"Give one label per node, shape [{num_nodes}]",
        )
    column = y.reshape(-1)
    cells = [None if empty else cell for cell, empty in zip(column.tolist(), pandas.isna(column))]
    given = [cell for cell in cells if cell is not None]
    wrong = [cell for cell in given if not (isinstance(cell, str) or _is_label(cell))]
    if wrong:
        raise InputError.plain(
            key,
            f"the label {str(wrong[0])[:30]!r} is neither a word nor an integer from -1 to 2^63",
            "Use words, or integers from 0, and -1 for nodes without a label",
        )
    if not any(isinstance(cell, str) for cell in given):
        return np.array([HIDDEN if cell is None else int(cell) for cell in cells], dtype=np.int64)
    written = ["" if cell is None else cell for cell in cells]
    words = [cell if isinstance(cell, str) else str(int(cell)) for cell in written]
    others = ["" if word in kept else word for word in words]
    cleaned, notes, alike = clean_words(others, key, held)
    for note in notes + alike:
        if note not in said:
            warn(note)
    return np.array([word if word in kept else label for word, label in zip(words, cleaned)])


def _is_label(cell: Any) -> bool:
    """Whether a value is a whole number from -1 to 2^63."""
    if not isinstance(cell, (Real, np.bool_)):
        return False
    number: Any = cell
    return bool(HIDDEN <= number < 2**63 and number == int(number))


def _numbered(graphs: dict[str, Data]) -> tuple[list[Data], np.ndarray]:
    """Clean graphs with consistent integer labels (-1 = no label), and the class names."""
    cleaned = []
    found = []
    for role, graph in graphs.items():
        plain = unlabelled(graph, role)
        masks = files.tensors(graph, (*MASKS, CHOSEN_MASK, DRAWN_MASK), role)
        size = len(plain.x)
        if graph.edge_attr is not None:
            hint = "if it holds weights, set graph.edge_weight = graph.edge_attr.view(-1)"
            warn(f"{role}: edge_attr is not read; {hint}")
        held = torch.zeros(size, dtype=torch.bool)
        for name in masks.keys() - {"train_mask", CHOSEN_MASK, DRAWN_MASK}:
            held |= cleaning.mask(masks[name], size, f"{role}: {name}")
        y = np.full(size, HIDDEN)
        if graph.y is not None:
            said = getattr(graph, "notes", ())  # by from_frames
            y = labels(graph.y, size, f"{role}: y", held=held.tolist(), said=said)
        plain.update({"y": torch.full((size,), HIDDEN), **masks})
        cleaned.append(cleaning.clean(plain, role))
        found.append((y, y != ("" if y.dtype.kind == "U" else HIDDEN)))
    named = [y[has_label] for y, has_label in found if has_label.any()]
    if len({y.dtype.kind for y in named}) != 1:
        raise InputError.plain(
            f"{[*graphs][0]}: y",
            "the labels are missing, or words in one graph and numbers in the other",
            "Give labels that are all words or all whole numbers",
        )
    values = np.unique(np.concatenate(named))
    for graph, (y, has_label) in zip(cleaned, found):
        number = np.searchsorted(values, y[has_label])
        graph.y[torch.from_numpy(has_label)] = torch.from_numpy(number)
    return cleaned, values


def _hold_out(y: Tensor, train: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Training and held-out nodes; a share of each class with two or more is held out."""
    order = train[splits.shuffled(len(train), seed, "held-out nodes")]
    parts = []
    for c in splits.classes_of(y[train]):
        nodes = order[y[order] == c]
        count = max(1, round(share * len(nodes))) if len(nodes) > 1 else 0
        parts.append(nodes[:count])
    held = torch.cat(parts)
    return train[~torch.isin(train, held)], held.sort().values

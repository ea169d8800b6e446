"""A user's own graph from files, with its own split or a drawn one; classes that training does not name are unknown."""
from __future__ import annotations

import csv
import pickle
import re
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_scipy_sparse_matrix, index_to_mask

from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import _datasets, _splits
from graphgym_srnc.task import ShiftTask

SPLITS = ("auto", "given", "random")
MASKS = ("train_mask", "val_mask", "test_mask")
TABLES = (".csv", ".tsv", ".txt")


def build(*, name: str = "", root: str = "", split_seed: int = 0, path: str = "", features: str = "", labels: str = "",
          open_set: bool = True, num_unseen: int = 0, unseen: list[int] = [], labels_per_class: int = 20,  # noqa: B006
          split: str = "auto", num_val: int = 500, num_test: int = 1000) -> ShiftTask:
    """Make a task of a graph in files, which are only read.

    ``path`` is one of

    - ``.pt``: a PyG ``Data`` (or a dict of tensors) saved by ``torch.save``: ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]``,
      and if there is a split ``train_mask``, ``val_mask``, ``test_mask`` ``[V]``. Tensors only: no pickled code is run.
    - ``.npz``: arrays of the same names, or the keys ``adj_*``, ``attr_*``, ``labels`` of the gnn-benchmark files.
    - ``.csv``, ``.tsv``, ``.txt``: a list of edges, two node numbers a line, with ``features`` (``.npy``, a scipy sparse ``.npz``, or a
      table with a line a node) and ``labels`` (``.npy``, or a table with a label a line, or lines of node and label). Labels may be
      names; an empty one, or -1, is none.
    - a folder with ``edges.*``, ``features.*`` and ``labels.*`` as above, and if there is a split ``split.csv`` with lines of node and
      ``train``, ``val`` or ``test``.

    Edges may be directed, repeated or self-loops: the graph is made undirected and simple. Nodes without a label (-1) serve as
    unlabelled target nodes.

    Args:
        name: name of the task, and the path where ``path`` is empty.
        root: folder that a path is looked for in, if it is not found from the working folder.
        split_seed: decides what is drawn.
        path: the graph: ``.pt``, ``.npz``, a list of edges, or a folder; empty = ``dataset.name``.
        features: the feature file beside a list of edges.
        labels: the label file beside a list of edges.
        open_set: whether there is an unknown class; its nodes are those of masked classes and of classes without a training node.
        num_unseen: number of classes to mask, drawn from ``split_seed``.
        unseen: ids of the classes to mask; overrides ``num_unseen``. Named labels are numbered in alphabetical order.
        labels_per_class: labelled nodes of each known class in a drawn split; -1 = all that are neither validation nor test.
        split: ``given`` (the file's masks), ``random`` (drawn), or the former where there are any (``auto``). A given training mask
            without the others is completed by drawn validation and test nodes.
        num_val: drawn validation nodes, less on a small graph.
        num_test: drawn test nodes, less on a small graph; -1 = all other labelled nodes.

    Raises:
        InputError: a file is missing, of unknown kind or not what it should be; the graph or its labels make no task.
    """
    if split not in SPLITS:
        raise InputError("file.split", split, ", ".join(SPLITS))
    source = _locate(path or name, root, "file.path")
    fields, names = _load(source, features, labels, root)
    key = f"file.path {source.name}"
    data = _datasets.clean(_as_data(fields, key), key)
    classes = data.y[data.y >= 0].unique().tolist()
    if classes != list(range(len(classes))) or len(classes) < 2:
        raise InputError(f"{key}: y", classes, "labels 0, 1, ... of two classes or more without a gap, or -1 where there is none")
    if not open_set and (unseen or num_unseen):
        raise InputError("file.open_set", open_set, "True where file.unseen or file.num_unseen masks classes")
    masked = _splits.choose_unseen(classes, num_unseen, unseen, split_seed, "file")
    given = split != "random" and "train_mask" in data
    if split == "given" and not given:
        raise InputError("file.split", split, "random or auto: the file has no train_mask")
    if given:
        masked, nodes = _given(data, masked, open_set, num_val, num_test, split_seed, key)
    else:
        nodes = _splits.draw(data.y, masked, labels_per_class=labels_per_class, num_val=num_val, num_test=num_test, split_seed=split_seed,
                             section="file")
    return _splits.open_set_task(f"file/{name or source.stem}", data, masked, nodes, open_set=open_set, class_names=names,
                                 info={"data": source.name, "split": "given" if given else "random", "split_seed": split_seed})


def _given(data: Data, masked: list[int], open_set: bool, num_val: int, num_test: int, split_seed: int,
           key: str) -> tuple[list[int], _splits.Nodes]:
    """The masked classes and the nodes of a split that comes with the data."""
    parts: dict[str, torch.Tensor] = {}
    for mask in MASKS:
        if mask not in data:
            continue
        if tuple(data[mask].shape) != (data.num_nodes,):
            raise InputError(f"{key}: {mask}", tuple(data[mask].shape), f"one true or false a node, shape [{data.num_nodes}]")
        parts[mask] = data[mask].bool().nonzero().view(-1)
        bare = parts[mask][data.y[parts[mask]] < 0]
        if len(bare):
            raise InputError(f"{key}: {mask}", f"{len(bare)} node(s) without a label, e.g. {int(bare[0])}", "labelled nodes")
    train = parts["train_mask"]
    masked = sorted(set(masked) | set(data.y[data.y >= 0].tolist()) - set(data.y[train].tolist()))
    if masked and not open_set:
        raise InputError(f"{key}: train_mask", f"no node of class {masked}", "a training node of each class, or file.open_set True")
    known = ~torch.isin(data.y[train], torch.tensor(masked, dtype=torch.long))
    val, test = parts.get("val_mask"), parts.get("test_mask")
    if val is None or test is None:
        rest = data.y.index_fill(0, train, -1)
        val, test = _splits.draw_val_test(rest, num_val=num_val, num_test=num_test, split_seed=split_seed, section="file", val=val,
                                          test=test)
    return masked, _splits.Nodes(train[known], val, test, train[~known])


def _locate(path: str, root: str, key: str) -> Path:
    for candidate in (Path(path).expanduser(), _datasets.data_folder(root) / path):
        if path and candidate.exists():
            return candidate
    raise InputError(key, path, f"a file or folder, from the working folder or {_datasets.data_folder(root)}")


def _load(source: Path, features: str, labels: str, root: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of the graph, and class names if labels are words."""
    if source.is_dir():
        return _load_tables(_one(source, "edges", TABLES), _one(source, "features", (".npy", ".npz", *TABLES)),
                            _one(source, "labels", (".npy", *TABLES)), source / "split.csv")
    if source.suffix == ".pt":
        return _load_pt(source), ()
    if source.suffix == ".npz":
        return _load_npz(source), ()
    if source.suffix in TABLES:
        return _load_tables(source, _locate(features, root, "file.features"), _locate(labels, root, "file.labels"), None)
    raise InputError("file.path", source.name, f".pt, .npz, {', '.join(TABLES)}, or a folder")


def _load_pt(source: Path) -> dict[str, Any]:
    try:
        with _datasets.tensors_only():
            saved = torch.load(source, weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, KeyError) as error:
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        raise InputError("file.path", f"{source.name} with {foreign[1]}" if foreign else source.name,
                         "a Data object or a dict of tensors saved by torch.save, with nothing else in it") from error
    fields = saved.to_dict() if isinstance(saved, Data) else saved
    if not isinstance(fields, dict):
        raise InputError("file.path", f"{source.name} with a {type(saved).__name__}", "a Data object or a dict of tensors")
    return fields


def _load_npz(source: Path) -> dict[str, Any]:
    import scipy.sparse as sp
    arrays = _arrays(source, "file.path")
    if "adj_indptr" not in arrays:
        return arrays
    adjacency, attributes = (sp.csr_matrix((arrays[f"{part}_data"], arrays[f"{part}_indices"], arrays[f"{part}_indptr"]),
                                           arrays[f"{part}_shape"]) for part in ("adj", "attr"))
    return {"x": attributes.toarray(), "edge_index": from_scipy_sparse_matrix(adjacency)[0], "y": arrays["labels"]}


def _arrays(source: Path, key: str) -> dict[str, np.ndarray]:
    try:
        with np.load(source, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, BadZipFile) as error:
        raise InputError(key, source.name, f"a readable .npz of plain arrays ({error})") from error


def _load_tables(edges: Path, features: Path, labels: Path, split: Path | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    x = _features(features)
    y, names = _labels(labels, len(x))
    fields = {"x": x, "y": y, "edge_index": _numbers(edges, np.int64, 2).T}
    if split is not None and split.exists():
        rows = [row for row in _rows(split) if row[0].strip() != "node"]
        wrong = [row for row in rows if len(row) != 2 or row[1] not in ("train", "val", "test") or not _is_node(row[0], len(x))]
        if wrong:
            raise InputError(split.name, ",".join(wrong[0]), f"lines of a node in 0 .. {len(x) - 1} and train, val or test")
        for part in ("train", "val", "test"):
            nodes = torch.tensor([int(node) for node, own in rows if own == part], dtype=torch.long)
            if len(nodes):
                fields[f"{part}_mask"] = index_to_mask(nodes, len(x))
    return fields, names


def _features(file: Path) -> np.ndarray:
    if file.suffix == ".npy":
        return _array(file)
    if file.suffix == ".npz":
        import scipy.sparse as sp
        try:
            return sp.load_npz(file).toarray()
        except (ValueError, OSError, KeyError, BadZipFile) as error:
            raise InputError("file.features", file.name, f"a matrix saved by scipy.sparse.save_npz ({error})") from error
    return _numbers(file, np.float32, None)


def _labels(file: Path, num_nodes: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 where there is none, and class names if they are words."""
    if file.suffix == ".npy":
        return _array(file), ()
    rows = _rows(file, keep_empty=True)
    if rows and [cell.strip().lower() for cell in rows[0]] in (["node", "label"], ["label"]):
        rows = rows[1:]
    if any(len(row) > 1 for row in rows):
        rows = [row for row in rows if row]
        wrong = [row for row in rows if len(row) != 2 or not _is_node(row[0], num_nodes)]
        if wrong:
            raise InputError("file.labels", f"{file.name}: {','.join(wrong[0])}", f"lines of a node in 0 .. {num_nodes - 1} and its label")
        text = [""] * num_nodes
        for node, label in rows:
            text[int(node)] = label.strip()
    else:
        text = [row[0].strip() if row else "" for row in rows]
    try:
        return np.array([int(label or -1) for label in text]), ()
    except ValueError:
        names = sorted({label for label in text if label not in ("", "-1")})
        number = {label: i for i, label in enumerate(names)}
        return np.array([number.get(label, -1) for label in text]), tuple(names)


def _array(file: Path) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, OSError) as error:
        raise InputError("file.path", file.name, f"a readable .npy of plain numbers ({error})") from error


def _is_node(text: str, num_nodes: int) -> bool:
    return text.strip().isdecimal() and int(text) < num_nodes


def _rows(file: Path, keep_empty: bool = False) -> list[list[str]]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("file.path", file.name, f"a readable text file ({error})") from error
    sample = next((line for line in lines if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in sample), None)
    whole = keep_empty and file.suffix != ".txt"  # a class name may hold spaces
    rows = list(csv.reader(lines, delimiter=delimiter)) if delimiter else [[line] if whole else line.split() for line in lines]
    return [row for row in rows if keep_empty or row]


def _numbers(file: Path, dtype: type, columns: int | None) -> np.ndarray:
    """A table of numbers; a first line of words is a header."""
    rows = _rows(file)
    for skip in (0, 1):
        try:
            table = np.array(rows[skip:]).astype(dtype)
        except ValueError:
            continue
        if table.ndim == 2 and columns in (None, table.shape[1]):
            return table
    raise InputError("file.path", file.name, "a table of numbers with as many columns on each line" if columns is None
                     else f"lines of {columns} node numbers")


def _one(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    found = [folder / f"{stem}{suffix}" for suffix in suffixes if (folder / f"{stem}{suffix}").exists()]
    if len(found) != 1:
        raise InputError("file.path", folder.name, f"a folder with one file {stem}, of type {', '.join(suffixes)}; it has {len(found)}")
    return found[0]


def _as_data(fields: dict[str, Any], key: str) -> Data:
    missing = [field for field in ("x", "edge_index", "y") if fields.get(field) is None]
    if missing:
        raise InputError(key, sorted(fields), f"x, edge_index and y; {', '.join(missing)} missing")
    try:
        tensors = {field: torch.as_tensor(fields[field]) for field in ("x", "edge_index", "y", *MASKS) if fields.get(field) is not None}
    except (TypeError, ValueError) as error:
        raise InputError(key, str(error), "arrays of numbers") from error
    return Data(**tensors)

"""Reading a user's graph: PyG's ``Data``, arrays or a folder of tables, which are only read."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import index_to_mask

from graphgym_srnc.core.text import listed, plain
from graphgym_srnc.data import cleaning, folder, home, untrusted
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import restore

# Fields of a graph, and fields of node ids that are read if there are no masks.
GRAPH = ("x", "edge_index", "y")
READ = (*GRAPH, *MASKS)
IDS = {"train_idx": MASKS[0], "valid_idx": MASKS[1], "val_idx": MASKS[1], "test_idx": MASKS[2]}
TEXT = (".csv", ".tsv", ".txt")  # suffixes of text tables
METAPATHS = (
    "Join nodes of one type by torch_geometric.transforms.AddMetaPaths, and save the homogeneous "
    "Data of that type"
)
Fields = dict[str, Any]


def locate(path: str, root: str, key: str) -> Path:
    """The file or folder, from the working folder or else from the data folder; names ``key``."""
    data = home.data_folder(root)
    for candidate in (Path(path).expanduser(), data / path):
        restore(candidate)
        if path and candidate.exists():
            return candidate
    message = f"{path!r} does not exist" if path else "no file or folder is given"
    hint = f"Give a path relative to the current folder or to the data folder {data}"
    raise InputError.plain(key, message, hint)


def load(
    source: Path, features: str = "", labels: str | None = "", root: str = "", mapped: bool = False
) -> tuple[Fields, tuple[str, ...]]:
    """Fields of a graph (see the shift ``file``), and class names if labels are words.

    ``features`` and ``labels`` are files beside a list of edges, from the working folder or below
    ``root``. Labels None = read none, nor a split. ``mapped`` features, a ``.npy`` of float32, stay
    on disk.
    """
    from graphgym_srnc.data import tables  # imports pandas and scikit-learn

    folder.tell_changes(source)
    if source.is_dir():
        edges = _only(source, "edges", (".npy", *TEXT))
        x = _only(source, "features", (".npy", ".npz", *TEXT))
        y = None if labels is None else _only(source, "labels", (".npy", *TEXT))
        return tables.read(edges, x, y, None if y is None else source / "split.csv", mapped)
    if source.suffix in TEXT:
        x = locate(features, root, "features")
        y = None if labels is None else locate(labels, root, "labels")
        return tables.read(source, x, y, None, mapped)
    if mapped:
        message = f"the features of {source.name} cannot stay on disk"
        hint = "Set mapped to False, or store them as .npy beside a list of edges"
        raise InputError.plain("mapped", message, hint)
    readers = {".pt": _load_pt, ".npz": _load_npz}
    if source.suffix not in readers:
        message = f"{source.name} has an unknown file type"
        raise InputError.plain("path", message, f"Use a folder, {', '.join((*readers, *TEXT))}")
    return readers[source.suffix](source), ()


def load_unlabelled(path: str, features: str, root: str) -> tuple[Data, Path]:
    """Features and edges of a graph, not checked yet, and where it is, see :func:`load`."""
    source = locate(path, root, "path")
    if features and source.suffix not in TEXT:
        message = f"{source.name} contains its own features"
        raise InputError.plain("features", message, f"Leave out {features}")
    fields, _ = load(source, features, None, root)
    return Data(x=fields.get("x"), edge_index=fields.get("edge_index")), source


def num_nodes(source: Path) -> int | None:
    """The number of nodes of a graph folder, from the header of its features; None = not told."""
    with contextlib.suppress(Exception):  # whoever reads the graph tells what is wrong with it
        if (file := source / "features.npy").exists():
            return len(untrusted.array(file, mapped=True))
        shape: Any = untrusted.arrays(source / "features.npz", ["shape"])["shape"]
        return int(shape[0])
    return None


def unread(fields: Mapping[str, Any], read: Sequence[str] = READ) -> str:
    """Names of the fields of a graph that are not ``read``; empty if there is none."""
    if read == READ and not fields.keys() & {*MASKS}:
        read = (*read, *IDS)
    ignored = {*read} | ({"num_nodes"} if fields.get("num_nodes") == len(fields["x"]) else set())
    return listed([plain(name) for name in fields if name not in ignored], most=50)


def as_data(fields: Fields, key: str) -> Data:
    """A clean graph of features, edges, labels and masks alone; errors name ``key``."""
    if missing := [field for field in GRAPH if fields.get(field) is None]:
        nested = {name: value for name, value in fields.items() if isinstance(value, dict)}
        inner = {name: f" ({listed([*map(plain, value)])})" for name, value in nested.items()}
        found = listed([plain(name) + inner.get(name, "") for name in fields]) or "nothing"
        message = f"the graph has no {' and no '.join(missing)}; it has {found}"
        raise InputError.plain(key, message, "Save x, edge_index and y")
    data = Data(**tensors(fields, READ, key))
    ids = {} if fields.keys() & {*MASKS} else tensors(fields, [*IDS], key)
    size = (*data.x.shape, 0)[0]
    for name, nodes in ids.items():
        is_list = nodes.dim() == 1 and nodes.dtype in (torch.int64, torch.int32)
        if not is_list or not ((0 <= nodes) & (nodes < size)).all():
            hint = f"Give node ids from 0 to {size - 1}, or a mask"
            raise InputError.plain(f"{key}: {name}", "the field is not a list of node ids", hint)
        data[IDS[name]] = index_to_mask(nodes.long(), size) | data.get(IDS[name], False)
    return cleaning.clean(data, key)


def tensors(
    given: Mapping[str, Any] | Data, fields: Iterable[str], key: str
) -> dict[str, torch.Tensor]:
    """Those of some fields that there are, as CPU tensors; the features alone may be sparse."""
    found = {}
    for field in (field for field in fields if given.get(field) is not None):
        with reading(Path(field), "a tensor or array of numbers", f"{key}: {field}"):
            value = torch.as_tensor(given[field])
            if value.requires_grad or value.is_inference():
                value = value.detach().clone()
            sparse = value.layout != torch.strided and field != "x"
            masked = isinstance(given[field], np.ma.MaskedArray)
            if value.is_complex() or value.is_quantized or sparse or masked:
                raise TypeError(f"{type(given[field]).__name__}, {value.dtype}, {value.layout}")
            found[field] = value.cpu()
    return found


def _load_pt(source: Path) -> Fields:
    saved = untrusted.load(source)
    if not isinstance(saved, (Data, dict)):
        hint = METAPATHS if isinstance(saved, HeteroData) else "Save a Data or a dict of tensors"
        message = f"{source.name} contains a {type(saved).__name__}"
        raise InputError.plain("path", message, hint)
    fields = {name: value for name, value in saved.items() if value is not None}
    if isinstance(fields.get("split_idx"), dict):
        split = fields.pop("split_idx")
        fields = {f"{part}_idx": ids for part, ids in split.items()} | fields
    read = [fields[name] for name in (*READ, *IDS) if torch.is_tensor(fields.get(name))]
    untrusted.check_dense(read, source)
    return fields


def _load_npz(source: Path) -> Fields:
    """Arrays by name."""
    with reading(source, "a readable .npz of plain arrays"):
        return {**untrusted.arrays(source, (*READ, *IDS))}


def _only(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    """The one file of a folder that has a name with one of some suffixes."""
    found = [file for suffix in suffixes if (file := folder / f"{stem}{suffix}").exists()]
    if len(found) != 1:
        message = f"the folder {folder.name} has {len(found) or 'no'} files named {stem}"
        hint = f"Give one file {stem} of type {', '.join(suffixes)}"
        raise InputError.plain("path", message, hint)
    return found[0]

"""Reading a user's graph: PyG's ``Data``, arrays or a folder of tables, which are only read."""
from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import index_to_mask

from graphgym_srnc.atomic import regular, restore
from graphgym_srnc.data import folder, home, matlab, untrusted
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.errors import InputError
from graphgym_srnc.task import HIDDEN
from graphgym_srnc.text import listed, plain

GRAPH = ("x", "edge_index", "y")
READ = (*GRAPH, *MASKS)
IDS = {"train_idx": "train_mask", "valid_idx": "val_mask", "val_idx": "val_mask",
       "test_idx": "test_mask"}
"""Fields of a graph, and fields of node ids that are read if there are no masks."""

CSR = {matrix: [f"{matrix}_{part}" for part in ("data", "indices", "indptr", "shape")]
       for matrix in ("adj", "attr")}
"""Arrays of the other kind of ``.npz``, two sparse matrices."""


TEXT = (".csv", ".tsv", ".txt")
"""Kinds of text tables."""


def locate(path: str, root: str, key: str) -> Path:
    """The file or folder, from the working folder or else from the data folder.

    Raises:
        InputError: it is in neither; names ``key``.
    """
    data = home.data_folder(root)
    for candidate in (Path(path).expanduser(), data / path):
        restore(candidate)
        if path and candidate.exists():
            return candidate
    message = f"{path!r} does not exist" if path else "no file or folder is given"
    wanted = "Set dataset.name or file.path to" if key.endswith("path") else "Give"
    hint = f"{wanted} a path relative to the current folder or to the data folder {data}"
    raise InputError.plain(key, message, hint)


def load(source: Path, features: str = "", labels: str | None = "", root: str = "",
         mapped: bool = False) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph (see the shift ``file``), and class names if labels are words.

    Args:
        source: the graph.
        features, labels: files beside a list of edges; ``labels`` None = read none, nor a split.
        root: folder where these are looked for, if they are not found from the working folder.
        mapped: leave features on disk, a ``.npy`` of float32.

    Raises:
        InputError: a file is missing, of unknown kind or not what it should be; names ``path``,
            ``features``, ``labels`` or ``mapped``.
    """
    from graphgym_srnc.data import tables  # imports pandas and scikit-learn
    folder.tell_changes(source)
    if source.is_dir():
        edges = _only(source, "edges", (".npy", *TEXT))
        x = _only(source, "features", (".npy", ".npz", *TEXT))
        y, split = None, None
        if labels is not None:
            y, split = _only(source, "labels", (".npy", *TEXT)), source / "split.csv"
        made = folder.marker(source)
        found = tables.read(edges, x, y, split, mapped)
        if folder.marker(source) != made:
            raise InputError.plain("path", f"another process has replaced the folder {source.name} "
                                   "while it was read", "Run the command again")
        return found
    if source.suffix in TEXT:
        x = locate(features, root, "features")
        y = None if labels is None else locate(labels, root, "labels")
        return tables.read(source, x, y, None, mapped)

    if mapped:
        raise InputError.plain("mapped", f"the features of {source.name} cannot stay on disk",
                               "Set mapped to False, or store them as .npy beside a list of edges")
    readers = {".pt": _load_pt, ".npz": _load_npz, ".mat": _load_mat}
    if source.suffix not in readers:
        raise InputError.plain("path", f"{source.name} has an unknown file type",
                               f"Use a folder, .pt, .npz, .mat, {', '.join(TEXT)}")
    return readers[source.suffix](source), ()


def load_unlabelled(path: str, features: str, root: str) -> tuple[Data, Path]:
    """Features and edges of a graph in files, not checked yet, and where it was found.

    Labels and a split are not read. See :func:`load` for arguments and errors.
    """
    source = locate(path, root, "path")
    if features and source.suffix not in TEXT:
        raise InputError.plain("features", f"{source.name} contains its own features",
                               f"Leave out {features}")
    fields, _ = load(source, features, None, root)
    found = {key: fields[key] for key in ("x", "edge_index") if fields.get(key) is not None}
    return Data(**found), source


def num_nodes(source: Path) -> int | None:
    """The number of nodes of a graph folder, from the header of its features; None = not told."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        if (file := source / "features.npy").is_file():
            return len(np.load(regular(file), mmap_mode="r", allow_pickle=False))
        if (file := source / "features.npz").is_file():
            with np.load(regular(file), allow_pickle=False) as arrays:
                return int(arrays["shape"][0])
    return None


def unread(fields: Mapping[str, Any], read: Sequence[str] = READ) -> str:
    """Names of the fields of a graph that are not ``read``; empty if there is none."""
    if read == READ and not fields.keys() & {*MASKS}:
        read = (*read, *IDS)
    return listed([plain(name) for name, value in fields.items() if name not in read
                   and (name != "num_nodes" or value != len(fields["x"]))], most=50)


def as_data(fields: dict[str, Any], key: str) -> Data:
    """A ``Data`` of arrays or tensors: features, edges, labels and masks, of other fields none.

    Raises:
        InputError: a field is missing or holds no numbers; names ``key``.
    """
    missing = [field for field in GRAPH if fields.get(field) is None]
    if missing:
        found = [f"{name} ({listed([*map(plain, value)])})" if isinstance(value, dict)
                 else plain(name) for name, value in fields.items()]
        raise InputError.plain(key, f"the graph has no {' and no '.join(missing)}; it has "
                               f"{listed(found) or 'nothing'}", "Save x, edge_index and y")
    data = Data(**tensors(fields, READ, key))
    ids = {} if fields.keys() & {*MASKS} else tensors(fields, [*IDS], key)
    for name, nodes in ids.items():
        size = data.x.size(0) if data.x.dim() else 0
        if nodes.dim() != 1 or nodes.dtype not in (torch.int64, torch.int32) or not (
                (0 <= nodes) & (nodes < size)).all():
            raise InputError.plain(f"{key}: {name}", "the field is not a list of node ids",
                                   f"Give node ids from 0 to {size - 1}, or a mask")
        data[IDS[name]] = index_to_mask(nodes.long(), size) | data.get(IDS[name], False)
    return data


def tensors(given: Mapping[str, Any] | Data, fields: Sequence[str],
            key: str) -> dict[str, torch.Tensor]:
    """Those of some fields that there are, as CPU tensors; the features alone may be sparse.

    Raises:
        InputError: a field holds no numbers; names ``key``.
    """
    found = {}
    for field in fields:
        if field not in given or given[field] is None:
            continue
        try:
            value = torch.as_tensor(given[field])
            if isinstance(given[field], np.ma.MaskedArray):
                raise TypeError("a masked array")
            if value.requires_grad or value.is_inference():
                value = value.detach().clone()
            found[field] = value = value.cpu()
            sparse = value.layout != torch.strided and field != "x"
            if value.is_complex() or value.is_quantized or sparse:
                raise TypeError(f"{value.dtype}, {value.layout}")
        except Exception as error:  # of a foreign object or of what torch thinks of it
            text = untrusted.reason(error)[:100]
            message = f"this is not a tensor or array of numbers ({text})"
            raise InputError.plain(f"{key}: {field}", message) from error
    return found


def _load_pt(source: Path) -> dict[str, Any]:
    saved = untrusted.load(source)
    if not isinstance(saved, (Data, dict)):
        hint = (f"Convert it with data make {source.name} --node TYPE"
                if isinstance(saved, HeteroData) else "Save a Data object or a dict of tensors")
        raise InputError.plain("path", f"{source.name} contains a {type(saved).__name__}", hint)
    fields = {name: value for name, value in dict(saved.items()).items() if value is not None}
    untrusted.check_dense((fields[name] for name in (*READ, *IDS)
                           if torch.is_tensor(fields.get(name))), source)
    split = fields.get("split_idx")
    nodes = {f"{part}_idx": ids for part, ids in split.items()} if isinstance(split, dict) else {}
    if nodes and not nodes.keys() & fields.keys():
        fields |= nodes
        del fields["split_idx"]
    return fields


def _load_npz(source: Path) -> dict[str, Any]:
    """Arrays by name, or the matrices ``adj`` and ``attr`` and the array ``labels``."""
    with untrusted.reading(source, "a readable .npz of plain arrays"):
        fields = untrusted.arrays(source, (*READ, *IDS, *sum(CSR.values(), []), "labels"))
    if fields.get("adj_indptr") is None:
        return fields
    with untrusted.reading(source, "a graph of two sparse matrices adj_* and attr_*"):
        y = fields.pop("labels", None)
        parts = {name: [fields.pop(part) for part in CSR[name]] for name in CSR}
        edges, x = (untrusted.sparse_matrix(sp.csr_matrix((*arrays,), shape)).tocoo()
                    for *arrays, shape in parts.values())
        untrusted.check_dense([x], source)
        weights = {"edge weights of adj_data": None} if (edges.data != 1).any() else {}
        return {**fields, **weights, "x": x.toarray(), "y": y,
                "edge_index": np.stack([edges.row, edges.col])}


def _load_mat(source: Path) -> dict[str, Any]:
    """``network`` ``[V, V]``, ``attrb`` ``[V, F]`` and ``group``, ``[V, C]`` of 0 and 1 or numbers
    ``[V, 1]``; of several classes of a node the first one counts."""
    if not untrusted.is_trusted():
        raise InputError.plain("path", f"{source.name} is a .mat file, and a damaged one can crash "
                               "SciPy's reader", "If you trust its author, read it with --trust")
    fields = matlab.matrices(source, "path", dict.fromkeys(("network", "attrb", "group")))
    network, attrb, group = (fields.pop(name) for name in ("network", "attrb", "group"))
    untrusted.check_dense([attrb, group], source)
    y = group = untrusted.dense(group)
    if group.shape[1] > 1:
        y = np.where(group.any(1), group.argmax(1), HIDDEN)
        if several := int((np.count_nonzero(group, axis=1) > 1).sum()):
            fields[f"all but the first class of {several} nodes in group"] = None
    network = sp.coo_matrix(network)
    if (network.data != 1).any():
        fields["edge weights of network"] = None
    return {**fields, "x": untrusted.dense(attrb), "edge_index": np.stack(network.nonzero()),
            "y": y.reshape(-1).astype(np.int64)}


def _only(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    """The one file of a folder that has a name with one of some suffixes."""
    candidates = (folder / f"{stem}{suffix}" for suffix in suffixes)
    found = [file for file in candidates if file.exists()]
    if len(found) != 1:
        counted = f"{len(found)} files" if found else "no file"
        message = f"the folder {folder.name} has {counted} named {stem}"
        hint = f"{'Keep one' if found else 'Add a'} file {stem} of type {', '.join(suffixes)}"
        raise InputError.plain("path", message, hint)
    return found[0]

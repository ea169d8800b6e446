"""Reading a user's graph: PyG's ``Data``, arrays or a folder of tables, which are only read."""
from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_scipy_sparse_matrix

from graphgym_srnc.atomic import regular, restore
from graphgym_srnc.data import folder, home, matlab, tables, untrusted
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.errors import InputError
from graphgym_srnc.task import HIDDEN

CSR = tuple(f"{matrix}_{part}" for matrix in ("adj", "attr")
            for part in ("data", "indices", "indptr", "shape"))
"""Arrays of the other kind of ``.npz``, two sparse matrices."""


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
    text = tables.SUFFIXES
    folder.tell_changes(source)
    if source.is_dir():
        edges = _only(source, "edges", (".npy", *text))
        x = _only(source, "features", (".npy", ".npz", *text))
        y, split = None, None
        if labels is not None:
            y, split = _only(source, "labels", (".npy", *text)), source / "split.csv"
        made = folder.marker(source)
        found = tables.read(edges, x, y, split, mapped)
        if folder.marker(source) != made:
            raise InputError.plain("path", f"another process has replaced the folder {source.name} "
                                   "while it was read", "Run the command again")
        return found
    if source.suffix in text:
        x = locate(features, root, "features")
        y = None if labels is None else locate(labels, root, "labels")
        return tables.read(source, x, y, None, mapped)

    if mapped:
        raise InputError.plain("mapped", f"the features of {source.name} cannot stay on disk",
                               "Set mapped to False, or store them as .npy beside a list of edges")
    if source.suffix not in (".pt", ".npz", ".mat"):
        raise InputError.plain("path", f"{source.name} has an unknown file type",
                               f"Use a folder, .pt, .npz, .mat, {', '.join(text)}")
    return {".pt": _load_pt, ".npz": _load_npz, ".mat": _load_mat}[source.suffix](source), ()


def load_unlabelled(path: str, features: str, root: str) -> tuple[Data, Path]:
    """Features and edges of a graph in files, not checked yet, and where it was found.

    Labels and a split are not read. See :func:`load` for arguments and errors.
    """
    source = locate(path, root, "path")
    if features and source.suffix not in tables.SUFFIXES:
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


def weights(fields: dict[str, Any]) -> str:
    """The field of weights or features of links that a graph has, which is not read; or nothing."""
    return next((field for field in ("edge_weight", "edge_attr") if fields.get(field) is not None),
                "")


def as_data(fields: dict[str, Any], key: str) -> Data:
    """A ``Data`` of arrays or tensors: features, edges, labels and masks, of other fields none.

    Raises:
        InputError: a field is missing or holds no numbers; names ``key``.
    """
    missing = [field for field in ("x", "edge_index", "y") if fields.get(field) is None]
    if missing:
        found = ", ".join(sorted(map(str, fields))) or "nothing"
        raise InputError.plain(key, f"the graph has no {' and no '.join(missing)}; it has {found}",
                               "Save x, edge_index and y")
    return Data(**tensors(fields, ("x", "edge_index", "y", *MASKS), key))


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
            found[field] = value = torch.as_tensor(given[field]).cpu()
            sparse = value.layout != torch.strided and field != "x"
            if value.is_complex() or value.is_quantized or sparse:
                raise TypeError(f"{value.dtype}, {value.layout}")
        except Exception as error:  # of a foreign object or of what torch thinks of it
            text = untrusted.reason(error)[:100]
            message = f"this is not a tensor or array of numbers ({text})"
            raise InputError.plain(f"{key}: {field}", message) from error
    return found


def _load_pt(source: Path) -> dict[str, Any]:
    try:
        untrusted.check_archive(source)
        with untrusted.tensors_only():
            saved = torch.load(regular(source), weights_only=True, map_location="cpu")
    except Exception as error:  # torch has no error of its own for a file that is none of its own
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        message = f"{source.name} cannot be read"
        message += f": it contains {foreign[1]}" if foreign else ""
        message += f": {error}" * isinstance(error, untrusted.Damaged)
        hint = "Save a Data object or a dict of tensors with torch.save, and nothing else"
        raise InputError.plain("path", message, hint) from error
    fields = saved.to_dict() if isinstance(saved, Data) else saved
    if not isinstance(fields, dict):
        raise InputError.plain("path", f"{source.name} contains a {type(saved).__name__}",
                               "Save a Data object or a dict of tensors")
    return fields


def _load_npz(source: Path) -> dict[str, Any]:
    try:
        arrays = untrusted.arrays(source, ("x", "edge_index", "y", *MASKS, *CSR, "labels"))
    except Exception as error:  # NumPy lets through whatever zip files and headers of arrays end in
        reason = untrusted.reason(error)
        message = f"{source.name} is not a readable .npz of plain arrays ({reason})"
        raise InputError.plain("path", message) from error
    if arrays.get("adj_indptr") is None:
        return arrays
    try:
        matrices = {}
        for name in ("adj", "attr"):
            parts = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
            matrix = sp.csr_matrix(tuple(parts), arrays[f"{name}_shape"])
            matrices[name] = untrusted.sparse_matrix(matrix)
        edges, _ = from_scipy_sparse_matrix(matrices["adj"])
        x = untrusted.dense(matrices["attr"])
        return {"x": x, "edge_index": edges, "y": arrays.get("labels")}
    except Exception as error:
        message = (f"the arrays adj_* and attr_* of {source.name} are not two sparse matrices "
                   f"({untrusted.reason(error)})")
        raise InputError.plain("path", message) from error


def _load_mat(source: Path) -> dict[str, Any]:
    """``network`` ``[V, V]``, ``attrb`` ``[V, F]`` and ``group``, ``[V, C]`` of 0 and 1 or numbers
    ``[V, 1]``; of several classes of a node the first one counts."""
    if not untrusted.is_trusted():
        raise InputError.plain("path", f"{source.name} is a .mat file, and a damaged one can crash "
                               "SciPy's reader", "If you trust its author, read it with --trust")
    fields = matlab.matrices(source, "path", dict.fromkeys(("network", "attrb", "group")))
    group = matlab.dense(fields["group"])
    y = group.argmax(1) if group.shape[1] > 1 else group[:, 0]
    if group.shape[1] > 1:
        y = np.where(group.any(1), y, HIDDEN)
    return {"x": matlab.dense(fields["attrb"]), "edge_index": matlab.edges(fields["network"]),
            "y": y.astype(np.int64)}


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

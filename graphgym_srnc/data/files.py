"""Reading a user's graph: PyG's ``Data``, arrays or a graph folder, which are only read."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from graphgym_srnc.core.task import CHOSEN_MASK, DRAWN_MASK, HIDDEN
from graphgym_srnc.core.text import listed, plain
from graphgym_srnc.data import cleaning, folder, home, untrusted
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.errors import InputError, did_you_mean, reading
from graphgym_srnc.io.atomic import restore

GRAPH = ("x", "edge_index", "y")
FIELDS = (*GRAPH, "edge_weight")
READ = (*FIELDS, *MASKS, CHOSEN_MASK, DRAWN_MASK)
# Names in the .npz of the heterophily benchmark, of gnn-benchmark, of OGB and others.
ALIASES = {"node_features": "x", "node_labels": "y", "labels": "y", "edges": "edge_index"}
ALIASES |= {"valid_mask": "val_mask", **{f"{mask}s": mask for mask in MASKS}}
SPARSE = {"adj": "edge_index", "attr": "x"}  # matrices of gnn-benchmark, in four arrays each
CSR = ("data", "indices", "indptr", "shape")
Fields = dict[str, Any]


def locate(path: str, root: str, key: str) -> Path:
    """The file or folder, from the working folder or else from the data folder; names ``key``."""
    data = home.data_folder(root)
    for candidate in (Path(path).expanduser(), data / path):
        restore(candidate)
        if path and candidate.exists():
            return candidate
    hint = f"Give a path relative to the current folder or to the data folder {data}"
    beside = Path(path).expanduser().parent.glob("*")
    near = [str(one) for one in beside if one.suffix in ("", ".pt", ".npz")]
    raise InputError.plain(key, f"{path!r} does not exist", did_you_mean(path, near, hint))


def load(
    source: Path, labelled: bool = True, need_labels: bool = True
) -> tuple[Fields, tuple[str, ...]]:
    """Fields of a graph (see the shift ``file``), and class names if labels are words.

    Unless ``labelled``, neither labels nor a split are read. Without ``need_labels`` they may be
    absent.
    """
    fields, names = _load(source, labelled, need_labels)
    if not need_labels and fields.get("y") is None and fields.get("x") is not None:
        fields["y"] = np.full(len(fields["x"]), HIDDEN)
    return fields, names


def _load(source: Path, labelled: bool, need_labels: bool) -> tuple[Fields, tuple[str, ...]]:
    if source.is_dir():
        folder.tell_changes(source)
        from graphgym_srnc.data import folder_files  # imports pandas

        edges = _only(source, "edges", (".npy", ".csv"))
        x = _only(source, "features", (".npy", ".npz"))
        labelled &= need_labels or any(
            (source / f"labels{end}").exists() for end in (".npy", ".csv")
        )
        y = _only(source, "labels", (".npy", ".csv")) if labelled else None
        return folder_files.read(edges, x, y, source / "split.csv" if labelled else None)
    if source.suffix == ".pt":
        return _load_pt(source), ()
    if source.suffix != ".npz":
        raise InputError.plain(
            "path",
            f"{source.name} has an unknown file type",
            "Use a .pt or .npz file or a graph folder",
            "no_graph",
        )
    parts = [f"{matrix}_{part}" for matrix in SPARSE for part in CSR]
    with reading(source, "a readable .npz of plain arrays"):
        arrays = untrusted.arrays(source, (*READ, *ALIASES, *parts, "attr_matrix"))
        return _usual(arrays, source), ()


def _usual(given: Mapping[str, Any], source: Path) -> Fields:
    """The fields of a file under the names and in the shapes of PyG."""
    fields = {ALIASES.get(name, name): value for name, value in given.items()}
    if "attr_matrix" in fields:
        fields["x"] = fields.pop("attr_matrix")
    for matrix, name in SPARSE.items():
        if f"{matrix}_data" in fields:
            data, indices, indptr, shape = (fields.pop(f"{matrix}_{part}") for part in CSR)
            found = untrusted.sparse_matrix(sp.csr_matrix((data, indices, indptr), tuple(shape)))
            fields[name] = found
    if sp.issparse(fields.get("edge_index")):
        links = fields["edge_index"].tocoo()
        fields["edge_index"] = np.stack([links.row, links.col])
        fields["edge_weight"] = links.data
    if sp.issparse(fields.get("x")):
        untrusted.check_dense([fields["x"]], source)
    if "edges" in given and given["edges"].shape[1:] == (2,):
        fields["edge_index"] = given["edges"].T
    for mask in (f"{mask}s" for mask in MASKS if given.get(f"{mask}s") is not None):
        fields[ALIASES[mask]] = given[mask].T  # a row for each of several splits
    return with_edges(fields)


def with_edges(given: Mapping[str, Any]) -> Fields:
    """The fields of a graph whose edges may be a sparse adjacency matrix ``adj_t``."""
    fields = {**given}
    matrix = given.get("adj_t")
    is_sparse = is_torch_sparse_tensor(matrix) or isinstance(matrix, SparseTensor)
    if fields.get("edge_index") is None and is_sparse:
        fields["edge_index"], weight = to_edge_index(fields.pop("adj_t"))
        if weight.dim() == 1:
            fields["edge_weight"] = weight
    return fields


def load_unlabelled(path: str, root: str) -> tuple[Data, Path]:
    """Features and edges of a graph, not checked yet, and where it is, see ``load``."""
    source = locate(path, root, "path")
    fields, _ = load(source, labelled=False)
    return Data(**{name: fields.get(name) for name in ("x", "edge_index", "edge_weight")}), source


def num_nodes(source: Path) -> int | None:
    """The number of nodes of a graph folder, from the header of its features; None = not told."""
    with contextlib.suppress(Exception):  # whoever reads the graph tells what is wrong with it
        if (source / "features.npy").exists():
            return len(untrusted.array(source / "features.npy", mapped=True))
        shape: Any = untrusted.arrays(source / "features.npz", ["shape"])["shape"]
        return int(shape[0])
    return None


def unread(fields: Mapping[str, Any], read: Sequence[str] = READ) -> str:
    """Names of the fields of a graph that are not ``read``; empty if there is none."""
    return listed([plain(name) for name in fields if name not in (*read, "num_nodes")], most=50)


def as_data(fields: Fields, key: str) -> Data:
    """A clean graph of features, edges, labels and masks alone; errors name ``key``."""
    missing = [field for field in GRAPH if fields.get(field) is None]
    if missing:
        found = listed([*map(plain, fields)]) or "nothing"
        raise InputError.plain(
            key,
            f"the graph has no {' and no '.join(missing)}; it has {found}",
            "Save x, edge_index and y",
        )
    return cleaning.clean(Data(**tensors(fields, READ, key)), key)


def tensors(
    given: Mapping[str, Any] | Data, fields: Iterable[str], key: str
) -> dict[str, torch.Tensor]:
    """Those of some fields that there are, as CPU tensors; the features alone may be sparse."""
    found = {}
    for field in (field for field in fields if given.get(field) is not None):
        with reading(Path(field), "a tensor or array of numbers", f"{key}: {field}"):
            own = given[field]
            if sp.issparse(own):
                own = untrusted.sparse_matrix(own.tocsr()).toarray()
            if hasattr(own, "to_numpy"):  # torch would iterate over the columns of a frame
                own = own.to_numpy(copy=True)
            elif isinstance(own, np.ndarray) and not own.flags.writeable:
                own = own.copy()  # torch warns of such arrays
            if isinstance(own, (list, np.ndarray)) and np.asarray(own).dtype.kind in "US":
                raise InputError.plain(
                    f"{key}: {field}",
                    "its values are words",
                    "Give numbers; those of classes begin with 0, and -1 means no label",
                )
            value = torch.as_tensor(own)
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
    if isinstance(saved, (tuple, list)) and len(saved) > 1:  # of InMemoryDataset: fields and slices
        saved, slices, *_ = saved
        if isinstance(slices, dict) and any(len(ends) > 2 for ends in slices.values()):
            raise InputError.plain(
                "path", f"{source.name} holds several graphs", "Save one of them with torch.save"
            )
    if not isinstance(saved, (Data, dict)):
        raise InputError.plain(
            "path",
            f"{source.name} contains a {type(saved).__name__}",
            "Save a Data or a dict of tensors",
        )
    named = saved.to_dict() if isinstance(saved, Data) else saved
    fields = _usual({name: own for name, own in named.items() if own is not None}, source)
    read = [fields[name] for name in READ if torch.is_tensor(fields.get(name))]
    untrusted.check_dense(read, source)
    return fields


def _only(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    """The one file of a folder that has a name with one of some suffixes."""
    files = [folder / f"{stem}{suffix}" for suffix in suffixes]
    found = [file for file in files if file.exists()]
    if len(found) != 1:
        raise InputError.plain(
            "path",
            f"the folder {folder.name} has {len(found) or 'no'} files named {stem}",
            f"Give one of type {', '.join(suffixes)}",
        )
    return found[0]

"""Reading a user's graph: PyG's ``Data``, arrays or a graph folder, which are only read."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.core.task import HIDDEN
from graphgym_srnc.core.text import listed, plain
from graphgym_srnc.data import cleaning, folder, home, untrusted
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.errors import InputError, did_you_mean, reading
from graphgym_srnc.io.atomic import restore

GRAPH = ("x", "edge_index", "y")
READ = (*GRAPH, *MASKS)
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
    near = [*Path(path).expanduser().parent.glob("*")]
    graphs = [str(one) for one in near if is_graph(one)]
    hint = did_you_mean(path, graphs, hint)
    raise InputError.plain(key, message, hint)


def is_graph(path: Path) -> bool:
    """Whether a path looks like a graph: a file of one, or a folder with edges."""
    return path.suffix in (".pt", ".npz") or any(path.glob("edges.*"))


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
        from graphgym_srnc.data import tables  # imports pandas

        edges = _only(source, "edges", (".npy", ".csv"))
        x = _only(source, "features", (".npy", ".npz"))
        labelled &= need_labels or any(
            (source / f"labels{end}").exists() for end in (".npy", ".csv")
        )
        y = _only(source, "labels", (".npy", ".csv")) if labelled else None
        return tables.read(edges, x, y, source / "split.csv" if labelled else None)
    if source.suffix == ".pt":
        return _load_pt(source), ()
    if source.suffix != ".npz":
        message = f"{source.name} has an unknown file type"
        make = "graphgym-srnc data make NODES.csv LINKS.csv --out FOLDER"
        hint = f"Use a .pt or .npz file or a graph folder. Tables become a folder with: {make}"
        raise InputError.plain("path", message, hint)
    with reading(source, "a readable .npz of plain arrays"):
        return {**untrusted.arrays(source, READ)}, ()


def load_unlabelled(path: str, root: str) -> tuple[Data, Path]:
    """Features and edges of a graph, not checked yet, and where it is, see ``load``."""
    source = locate(path, root, "path")
    fields, _ = load(source, labelled=False)
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
    return listed([plain(name) for name in fields if name not in (*read, "num_nodes")], most=50)


def as_data(fields: Fields, key: str) -> Data:
    """A clean graph of features, edges, labels and masks alone; errors name ``key``."""
    if missing := [field for field in GRAPH if fields.get(field) is None]:
        found = listed([*map(plain, fields)]) or "nothing"
        message = f"the graph has no {' and no '.join(missing)}; it has {found}"
        raise InputError.plain(key, message, "Save x, edge_index and y")
    return cleaning.clean(Data(**tensors(fields, READ, key)), key)


def tensors(
    given: Mapping[str, Any] | Data, fields: Iterable[str], key: str
) -> dict[str, torch.Tensor]:
    """Those of some fields that there are, as CPU tensors; the features alone may be sparse."""
    found = {}
    for field in (field for field in fields if given.get(field) is not None):
        with reading(Path(field), "a tensor or array of numbers", f"{key}: {field}"):
            own = given[field]
            if hasattr(own, "to_numpy"):  # torch would iterate over the columns of a frame
                own = own.to_numpy(copy=True)
            elif isinstance(own, np.ndarray) and not own.flags.writeable:
                own = own.copy()  # torch warns of such arrays
            if isinstance(own, (list, np.ndarray)) and np.asarray(own).dtype.kind in "US":
                hint = "Number the classes from 0, and use -1 where there is no label"
                hint *= field == "y"
                raise InputError.plain(f"{key}: {field}", "its values are words", hint)
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
    if not isinstance(saved, (Data, dict)):
        message = f"{source.name} contains a {type(saved).__name__}"
        raise InputError.plain("path", message, "Save a Data or a dict of tensors")
    fields = {name: value for name, value in saved.items() if value is not None}
    read = [fields[name] for name in READ if torch.is_tensor(fields.get(name))]
    untrusted.check_dense(read, source)
    return fields


def _only(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    """The one file of a folder that has a name with one of some suffixes."""
    found = [file for suffix in suffixes if (file := folder / f"{stem}{suffix}").exists()]
    if len(found) != 1:
        message = f"the folder {folder.name} has {len(found) or 'no'} files named {stem}"
        hint = f"Give one file {stem} of type {', '.join(suffixes)}"
        hint += ", or label nodes of your table and run data make again" * (stem == "labels")
        raise InputError.plain("path", message, hint)
    return found[0]

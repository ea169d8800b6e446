"""Reading a graph from files: PyG's ``Data``, arrays or tables; nothing is written, and no pickled code is run."""
from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_scipy_sparse_matrix, index_to_mask

from graphgym_srnc.data import datasets
from graphgym_srnc.errors import InputError

MASKS = ("train_mask", "val_mask", "test_mask")
TABLES = (".csv", ".tsv", ".txt")


def locate(path: str, root: str, key: str) -> Path:
    """The file or folder, from the working folder or else from the data folder.

    Raises:
        InputError: it is in neither; names ``key``.
    """
    for candidate in (Path(path).expanduser(), datasets.data_folder(root) / path):
        if path and candidate.exists():
            return candidate
    raise InputError(key, path, f"a file or folder, from the working folder or {datasets.data_folder(root)}")


def load(source: Path, features: str, labels: str | None, root: str, mapped: bool = False) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph (see the shift ``file``), and class names if labels are words.

    Args:
        source: the graph.
        features, labels: the files beside a list of edges; with None for ``labels`` none are read, nor is a split.
        root: folder that these are looked for in, if they are not found from the working folder.
        mapped: leave features on disk, a ``.npy`` of float32.

    Raises:
        InputError: a file is missing, of unknown kind or not what it should be.
    """
    if mapped and not source.is_dir() and source.suffix not in TABLES:
        raise InputError("file.mapped", mapped, f"False with {source.name}, or features in a .npy beside a list of edges")
    if source.is_dir():
        return _load_tables(_one(source, "edges", (".npy", *TABLES)), _one(source, "features", (".npy", ".npz", *TABLES)),
                            *((None, None) if labels is None else (_one(source, "labels", (".npy", *TABLES)), source / "split.csv")),
                            mapped=mapped)
    if source.suffix == ".pt":
        return _load_pt(source), ()
    if source.suffix == ".npz":
        return _load_npz(source), ()
    if source.suffix in TABLES:
        return _load_tables(source, locate(features, root, "file.features"),
                            None if labels is None else locate(labels, root, "file.labels"), None, mapped)
    raise InputError("file.path", source.name, f".pt, .npz, {', '.join(TABLES)}, or a folder")


def load_unlabelled(path: str, features: str, root: str) -> tuple[Data, Path]:
    """Features and edges of a graph in files, not checked yet, and where it was found; labels and a split are not read.

    Args:
        path, features: see the shift ``file``.
        root: folder that these are looked for in, if they are not found from the working folder.

    Raises:
        InputError: a file is missing, of unknown kind or not what it should be.
    """
    source = locate(path, root, "file.path")
    if features and source.suffix not in TABLES:
        raise InputError("file.features", features, f"nothing beside {source.name}, which has its own")
    fields, _ = load(source, features, None, root)
    return Data(**{field: fields[field] for field in ("x", "edge_index") if fields.get(field) is not None}), source


def as_data(fields: dict[str, Any], key: str) -> Data:
    """A ``Data`` of arrays or tensors; other fields than these and the masks are left out.

    Raises:
        InputError: a field is missing or holds no numbers; names ``key``.
    """
    missing = [field for field in ("x", "edge_index", "y") if fields.get(field) is None]
    if missing:
        raise InputError(key, sorted(map(str, fields)), f"x, edge_index and y; {', '.join(missing)} missing")
    return Data(**tensors(fields, ("x", "edge_index", "y", *MASKS), key))


def tensors(given: Mapping[str, Any] | Data, fields: Sequence[str], key: str) -> dict[str, torch.Tensor]:
    """Those of some fields that there are, as tensors on the CPU; the features alone may be sparse.

    Raises:
        InputError: a field holds no numbers; names ``key``.
    """
    found = {}
    for field in fields:
        if field not in given or given[field] is None:
            continue
        try:
            found[field] = value = torch.as_tensor(given[field]).cpu()
            if value.is_complex() or value.is_quantized or value.layout != torch.strided and field != "x":
                raise TypeError(f"{value.dtype}, {value.layout}")
        except Exception as error:  # of a foreign object or of what torch thinks of it
            raise InputError(f"{key}: {field}", " ".join(str(error).split())[:100], "a tensor or array of numbers") from error
    return found


def _load_pt(source: Path) -> dict[str, Any]:
    try:
        with datasets.tensors_only():
            saved = torch.load(source, weights_only=True, map_location="cpu")
    except Exception as error:  # torch has no error of its own for a file that is none of its own
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
    try:
        adjacency, attributes = (checked(sp.csr_matrix((arrays[f"{part}_data"], arrays[f"{part}_indices"], arrays[f"{part}_indptr"]),
                                                       arrays[f"{part}_shape"])) for part in ("adj", "attr"))
        return {"x": attributes.toarray(), "edge_index": from_scipy_sparse_matrix(adjacency)[0], "y": arrays.get("labels")}
    except Exception as error:
        raise InputError("file.path", source.name, f"two sparse matrices adj_* and attr_* ({_told(error)})") from error


def _arrays(source: Path, key: str) -> dict[str, np.ndarray]:
    try:
        with np.load(source, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # NumPy lets through whatever zip files and headers of arrays end in
        raise InputError(key, source.name, f"a readable .npz of plain arrays ({_told(error)})") from error


def _load_tables(edges: Path, features: Path, labels: Path | None, split: Path | None,
                 mapped: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    x = _mapped(features) if mapped else _features(features)
    y, names = (None, ()) if labels is None else _labels(labels, len(x))
    fields = {"x": x, "y": y, "edge_index": _array(edges) if edges.suffix == ".npy" else _numbers(edges, np.int64, 2).T}
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
            return checked(sp.load_npz(file)).toarray()
        except Exception as error:
            raise InputError("file.features", file.name, f"a matrix saved by scipy.sparse.save_npz ({_told(error)})") from error
    return _numbers(file, np.float32, None)


def checked(matrix: Any) -> Any:
    """A sparse matrix whose indices were looked at: SciPy reads and writes outside its memory where they are wrong.

    Raises:
        ValueError: they are.
    """
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _told(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _mapped(file: Path) -> torch.Tensor:
    """Features left on disk; whoever scales or reads them sees so by the attribute ``mapped``."""
    allowed = "float32 features [V, F] in a .npy, in C order"
    try:
        array = np.load(file, allow_pickle=False, mmap_mode="c") if file.suffix == ".npy" else None
    except Exception as error:
        raise InputError("file.mapped", file.name, f"{allowed} ({_told(error)})") from error
    if array is None or array.dtype != np.float32 or array.ndim != 2 or not array.flags.c_contiguous:
        raise InputError("file.mapped", file.name if array is None else f"{array.dtype} {array.shape} in {file.name}", allowed)
    x = torch.from_numpy(array)
    x.mapped = True
    return x


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
        numbers = [int(label or -1) for label in text]
        if any(label and label != str(number) for label, number in zip(text, numbers)):
            raise ValueError("a name such as 007")
        return np.array(numbers), ()
    except ValueError:
        names = sorted({label for label in text if label not in ("", "-1")})
        number = {label: i for i, label in enumerate(names)}
        return np.array([number.get(label, -1) for label in text]), tuple(names)


def _array(file: Path) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)
    except Exception as error:
        raise InputError("file.path", file.name, f"a readable .npy of plain numbers ({_told(error)})") from error


def _is_node(text: str, num_nodes: int) -> bool:
    return text.strip().isdecimal() and len(text) < 20 and int(text) < num_nodes


def _rows(file: Path, keep_empty: bool = False) -> list[list[str]]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("file.path", file.name, f"a readable text file ({error})") from error
    sample = next((line for line in lines if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in sample), None)
    whole = keep_empty and file.suffix != ".txt"  # a class name may hold spaces
    try:
        rows = list(csv.reader(lines, delimiter=delimiter)) if delimiter else [[line] if whole else line.split() for line in lines]
    except csv.Error as error:
        raise InputError("file.path", file.name, f"a table ({error})") from error
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

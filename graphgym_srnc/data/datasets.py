"""PyG's node-classification data sets by name, read without writing beside their raw files."""
from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator

from graphgym_srnc.cache import cache_folder, locked
from graphgym_srnc.data import edges
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

FAMILIES: dict[str, dict[str, str]] = {
    "Planetoid": {"Cora": "Cora/raw", "CiteSeer": "CiteSeer/raw", "PubMed": "PubMed/raw"},
    "CitationFull": {"Cora": "cora/raw", "Cora_ML": "cora_ml/raw", "CiteSeer": "citeseer/raw", "DBLP": "dblp/raw", "PubMed": "pubmed/raw"},
    "Amazon": {"Computers": "Computers/raw", "Photo": "Photo/raw"},
    "Coauthor": {"CS": "CS/raw", "Physics": "Physics/raw"},
    "WikiCS": {"": "raw"},
    "OGB": {"ogbn-arxiv": "ogbn_arxiv/raw", "ogbn-products": "ogbn_products/raw"},
}
"""Family, members, and where a member's raw files lie below ``<root>/<family in lower case>``."""

KEPT = ("x", "edge_index", "y", "node_year", "train_mask", "val_mask", "test_mask")
"""What the file of a parsed graph holds; a file from a version with other fields is not read."""

CLASS_NAMES = {
    "Planetoid/Cora": ("Theory", "Reinforcement Learning", "Genetic Algorithms", "Neural Networks", "Probabilistic Methods", "Case Based",
                       "Rule Learning"),
    "Planetoid/CiteSeer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "Planetoid/PubMed": ("Experimental", "Type 1", "Type 2"),
}


def known_names() -> list[str]:
    """Full names of the data sets that work out of the box."""
    return ["/".join(filter(None, (family, member))) for family, members in FAMILIES.items() for member in members]


def resolve(name: str) -> tuple[str, str]:
    """Family and member of a name.

    ``Family/Member``, or the member alone, which means the first family that has it: ``Cora`` is ``Planetoid/Cora``. Case does
    not matter. Any other PyG class that holds one graph works as ``Class`` or ``Class/Member``, e.g. ``WebKB/Cornell``.

    Raises:
        InputError: nothing has that name.
    """
    table = {"corafull": ("CitationFull", "Cora")}
    for family, members in FAMILIES.items():
        for member in members:
            table[f"{family}/{member}".rstrip("/").lower()] = (family, member)
            table.setdefault(member.lower() or family.lower(), (family, member))
    if name.lower() in table:
        return table[name.lower()]
    family, _, member = name.partition("/")
    if family not in FAMILIES and family.isidentifier():
        import torch_geometric.datasets
        if hasattr(torch_geometric.datasets, family):
            return family, member
    raise InputError("dataset.name", name, ", ".join(known_names()) + ", or Class/Member of torch_geometric.datasets")


def data_folder(root: str = "") -> Path:
    """The data folder: ``root``, else the environment's ``GRAPHGYM_SRNC_DATA``, else ``./datasets``.

    GraphGym's default ``./datasets`` counts as no choice, so that the variable may replace it.
    """
    chosen = "" if os.path.normpath(root or "datasets") == "datasets" else root
    return Path(chosen or os.environ.get("GRAPHGYM_SRNC_DATA") or "datasets").expanduser().absolute()


@lru_cache(maxsize=2)
def load(name: str, root: str = "", verify: bool = True) -> Data:
    """One graph with ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]`` (-1 = unlabelled) and the public masks, if any.

    PyG works on links in a temporary folder, so nothing is written beside the raw files, the data folder may be read-only, and
    parallel runs cannot meet. Only downloads are kept, in the data folder or else in the user's cache. The result is shared
    between calls: do not change it.

    Args:
        name: see :func:`resolve`.
        root: see :func:`data_folder`.
        verify: compare Planetoid's pickles with their public SHA-256 before they are read.

    Raises:
        InputError: unknown name; files absent and no network; a wrong checksum; not one graph with one label a node.
    """
    family, member = resolve(name)
    base = _dataset_class(family, name)
    homes = [folder / family.lower() for folder in (data_folder(root), cache_folder())]
    raw = FAMILIES.get(family, {}).get(member, member)

    def place() -> tuple[bool, Path, Path | None]:
        present = [home for home in homes if any(_files(home / raw))]
        home = (present or homes)[0]
        return bool(present), home, _processed(family, member, home)

    present, home, parsed = place()
    data = _cached(parsed)
    if data is None:
        # What takes long is done by one process, and others wait for its files.
        with locked(cache_folder() / f"{family}-{member}.lock") if parsed or not present else nullcontext():
            _, home, parsed = place()
            data = _cached(parsed)
            if data is None:
                data = _staged(base, name, member, home, homes, verify)
                _store(data, place()[2])
    if family == "Planetoid" and member == "CiteSeer":
        # 15 papers are missing in the raw files; PyG fills them in without features, edges or a label and calls them class 0.
        data.y = data.y.masked_fill(data.x.abs().sum(1) == 0, -1)
    return clean(data)


def _staged(base: type, name: str, member: str, home: Path, homes: list[Path], verify: bool) -> Data:
    """Read a data set on links to its files, and keep what had to be downloaded."""
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        staging = Path(folder)
        for file in _files(home):
            link = staging / file.relative_to(home)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file.resolve())
        data = _read(base, name, member, staging, home, verify)
        keep(staging, homes)
    return data


def clean(data: Data, key: str = "dataset.name") -> Data:
    """Checked and in the one form that methods see: undirected, each edge once a direction, no self-loops; isolated nodes stay.

    What was changed is counted in ``data.cleaned``: ``self_loops``, ``duplicates``, and ``one_way`` (edges without their reverse).

    Args:
        data: a graph; ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]`` or ``[V, 1]``.
        key: what errors name.

    Raises:
        InputError: empty, mismatched shapes, NaN or Inf, edges out of range, labels that are no integers from -1.
    """
    import numpy as np
    import torch
    from torch_geometric.data import Data

    (x, edge_index), y = features_and_edges(data, key), data.y
    nodes = x.size(0)
    if y is None or tuple(y.shape) not in ((nodes,), (nodes, 1)):
        raise InputError(f"{key}: y", None if y is None else tuple(y.shape), f"one label a node, shape [{nodes}]")
    if not torch.equal(y, y.long().to(y.dtype)) or int(y.long().min()) < -1:
        raise InputError(f"{key}: y", float(y.double().min()), "integer labels 0, 1, ..., or -1 where there is none")
    number, cleaned = edges.undirected(edge_index.numpy(), nodes)
    if not len(number):
        raise InputError(f"{key}: edge_index", "no edge", "a graph with at least one edge between two nodes")
    both = np.empty((2, len(number)), dtype=np.int64)
    both[1] = number
    del number  # each of these is most of the memory that a large graph takes
    np.floor_divide(both[1], nodes, out=both[0])
    np.remainder(both[1], nodes, out=both[1])
    others = {key: data[key] for key in ("train_mask", "val_mask", "test_mask") if key in data}
    if "node_year" in data:
        others["node_year"] = data.node_year.reshape(-1).long()
    return Data(x=x, edge_index=torch.from_numpy(both), y=y.reshape(-1).long(), num_nodes=nodes, cleaned=cleaned, **others)


def features_and_edges(data: Data, key: str) -> tuple[Tensor, Tensor]:
    """Checked features ``[V, F]``, dense floats, and edges ``[2, E]``.

    Args:
        data: a graph.
        key: what errors name.

    Raises:
        InputError: empty, mismatched shapes, NaN or Inf, edges out of range.
    """
    import torch

    from graphgym_srnc.task import all_finite

    x, edge_index = data.x, data.edge_index
    if x is None or x.dim() != 2 or 0 in x.shape:
        raise InputError(f"{key}: x", None if x is None else tuple(x.shape), "features [V, F] of at least one node")
    try:
        x = (x if x.layout == torch.strided else x.to_dense()).float().contiguous()
    except (RuntimeError, MemoryError) as error:
        raise InputError(f"{key}: x", tuple(x.shape), "features that fit into memory") from error
    if not all_finite(x):
        raise InputError(f"{key}: x", f"NaN or Inf in {int((~torch.isfinite(x)).any(1).sum())} node(s)", "finite features")
    if edge_index is None or edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.is_floating_point():
        raise InputError(f"{key}: edge_index", None if edge_index is None else (tuple(edge_index.shape), edge_index.dtype),
                         "integer node pairs [2, E]")
    nodes, edge_index = x.size(0), edge_index.long()
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < nodes:
        raise InputError(f"{key}: edge_index", [int(edge_index.min()), int(edge_index.max())], f"node ids in 0 .. {nodes - 1}")
    return x, edge_index


@contextmanager
def tensors_only(*classes: type) -> Iterator[None]:
    """Within it, ``torch.load(weights_only=True)`` also reads PyG's ``Data``, or other classes, and still runs no pickled code. It looks
    at the indices of sparse tensors too, which lead outside their memory where they are wrong."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage
    with (torch.serialization.safe_globals([*(classes or (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage))]),
          torch.sparse.check_sparse_tensor_invariants()):
        yield


def _dataset_class(family: str, name: str) -> type:
    if family == "OGB":
        if find_spec("ogb") is None:
            raise InputError("dataset.name", name, "the package ogb for this data set: pip install 'graphgym-srnc[ogb]'")
        from ogb.nodeproppred import PygNodePropPredDataset
        return PygNodePropPredDataset
    import torch_geometric.datasets
    return getattr(torch_geometric.datasets, family)


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(set(folders) - {"processed"})
        # Another process is still writing a hidden file.
        yield from (Path(parent) / file for file in sorted(files) if not file.startswith("."))


def _read(base: type, name: str, member: str, staging: Path, home: Path, verify: bool) -> Data:
    from graphgym_srnc.data import checksums

    def place(path: str) -> Path:
        return home / Path(path).relative_to(staging)

    class Dataset(base):
        def download(self) -> None:
            for path in Path(self.raw_dir).glob("*"):  # a link must not be written through
                path.unlink() if path.is_symlink() else None
            try:
                base.download(self)
            except (Exception, SystemExit) as error:
                files = ", ".join(Path(path).name for path in self.raw_paths)
                raise InputError("dataset.name", name, f"a network to download it ({type(error).__name__} now), or put into "
                                 f"{place(self.raw_dir)} these files: {files}") from error

        def _process(self) -> None:
            self.log = False
            for path in self.raw_paths if verify else ():
                checksums.verify(Path(path), place(path))
            base._process(self)

    ogb = staging / member.replace("-", "_")
    if base.__name__ == "PygNodePropPredDataset" and ogb.is_dir():
        (ogb / "RELEASE_v1.txt").touch()  # without it ogb asks on the terminal
    with warnings.catch_warnings(), redirect_stdout(sys.stderr), tensors_only():
        warnings.simplefilter("ignore")
        try:
            dataset = Dataset(name=member, root=str(staging)) if member else Dataset(root=str(staging))
        except InputError:
            raise
        except Exception as error:
            raise InputError("dataset.name", name, f"a data set that {base.__name__} makes from this name and from whole files in {home} "
                             f"({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error
        data = dataset[0]
        if len(dataset) != 1 or not hasattr(data, "edge_index") or data.y is None:
            raise InputError("dataset.name", name, "a data set of one graph with a class for each node")
        if base.__name__ == "PygNodePropPredDataset":
            from torch_geometric.utils import index_to_mask
            parts = dataset.get_idx_split()
            for mask, part in (("train_mask", "train"), ("val_mask", "valid"), ("test_mask", "test")):
                data[mask] = index_to_mask(parts[part], data.num_nodes)
    return data


def keep(staging: Path, homes: list[Path]) -> None:
    """Move what was downloaded to the first folder that takes it; each file appears whole or not at all."""
    fresh = [file for file in _files(staging) if not file.is_symlink() and file.name != "RELEASE_v1.txt"]
    for home in homes if fresh else ():
        try:
            for file in fresh:
                target = home / file.relative_to(staging)
                target.parent.mkdir(parents=True, exist_ok=True)
                part = target.with_name(f".{target.name}.{os.getpid()}")
                try:
                    shutil.copyfile(file, part)
                    os.replace(part, target)
                finally:
                    part.unlink(missing_ok=True)
            return
        except OSError:
            continue


def _processed(family: str, member: str, home: Path) -> Path | None:
    """File of the parsed graph, for OGB only: its text files take long to parse."""
    files = [file for file in _files(home / FAMILIES.get(family, {}).get(member, ""))] if family == "OGB" else []
    stamp = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return cache_folder() / f"{member}-{sha256(repr((KEPT, stamp)).encode()).hexdigest()[:16]}.pt" if stamp else None


def _cached(cache: Path | None) -> Data | None:
    """The parsed graph, mapped into memory so that processes share it; None where the file is absent or damaged."""
    import torch
    from torch_geometric.data import Data
    try:
        return None if cache is None else Data(**torch.load(cache, weights_only=True, mmap=True))
    except Exception:  # whatever is wrong with a file, it is made again
        return None


def _store(data: Data, cache: Path | None) -> None:
    import torch
    if cache is None:
        return
    tensors: dict[str, Any] = {key: data[key] for key in KEPT if key in data}
    part = cache.with_name(f".{cache.name}.{os.getpid()}")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        torch.save(tensors, part)
        os.replace(part, cache)
    except OSError:
        part.unlink(missing_ok=True)

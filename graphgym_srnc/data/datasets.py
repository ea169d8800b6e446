"""PyG's node-classification data sets by name, each in the one form that methods see."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from torch_geometric.data import Data

from graphgym_srnc.data import catalogue, cleaning, home, pyg
from graphgym_srnc.io import tensors
from graphgym_srnc.io.cache import cache_folder, locked

KEPT = ("x", "edge_index", "y", "node_year", "train_mask", "val_mask", "test_mask")
"""Fields in the file of a parsed graph; a file of a version with other fields is not read."""


@lru_cache(maxsize=2)
def load(name: str, root: str = "") -> Data:
    """One graph: ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]``, and public masks.

    A node without a label has ``y`` -1. Nothing is written beside the raw files, and they run no
    code unless :func:`untrusted.trusted`; see :func:`pyg.read`. The result is shared between calls:
    do not change it.

    Args:
        name: see :func:`catalogue.resolve`.
        root: see :func:`home.data_folder`.

    Raises:
        InputError: unknown name; files absent and no network; a wrong checksum; pickled code; not
            one graph with one label a node.
    """
    family, member = catalogue.resolve(name)
    homes = home.homes(family, root)
    # What takes long is done by one process, and others wait for its files.
    takes_long = family == "OGB" or _present(family, member, homes) is None
    lock = cache_folder() / f"{family}-{member}.lock"
    with locked(lock) if takes_long else nullcontext():
        source = _present(family, member, homes)
        data = _load_parsed(_parsed_file(family, member, source))
        if data is None:
            data = pyg.read(family, name, member, homes, source or homes[0])
            _store_parsed(data, _parsed_file(family, member, _present(family, member, homes)))
    if (family, member) == ("Planetoid", "CiteSeer"):
        # 15 papers are missing in the raw files; PyG fills them in without features, edges or a
        # label and calls them class 0.
        data.y = data.y.masked_fill(data.x.abs().sum(1) == 0, -1)
    return cleaning.clean(data, name)


def _present(family: str, member: str, homes: list[Path]) -> Path | None:
    """The first folder that holds raw files of the data set."""
    raw = catalogue.raw_folder(family, member)
    return next((source for source in homes if any(home.files_below(source / raw))), None)


def _parsed_file(family: str, member: str, source: Path | None) -> Path | None:
    """File of the parsed graph, for OGB only: its text files take long to parse."""
    if family != "OGB" or source is None:
        return None
    files = home.files_below(source / catalogue.raw_folder(family, member))
    stamp = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = sha256(repr((KEPT, stamp)).encode()).hexdigest()
    return cache_folder() / f"{member}-{digest[:16]}.safetensors"


def _load_parsed(file: Path | None) -> Data | None:
    """The parsed graph; None if there is none."""
    if file is None:
        return None
    try:
        return Data(**tensors.read(file)[1])
    except (OSError, ValueError):  # a damaged file is made again
        return None


def _store_parsed(data: Data, file: Path | None) -> None:
    if file is not None:
        with suppress(OSError):
            kept = {key: data[key] for key in KEPT if key in data}
            tensors.write(file, {}, kept)

"""The citation networks ACMv9, Citationv1 and DBLPv7, one benchmark of classification across graphs: shared words, five shared classes.

The files are those of Shen et al., Adversarial Deep Network Embedding for Cross-Network Node Classification (AAAI 2020).
"""
from __future__ import annotations

import tempfile
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphgym_srnc.data import datasets
from graphgym_srnc.errors import InputError

NODES = {"acmv9": 9360, "citationv1": 8935, "dblpv7": 5484}
"""Names and numbers of nodes; a network is in ``citation/<name>.mat`` below the data folder."""

WORDS, CLASSES = 6775, 5
TWO_LABELS = ("first", "drop")
URL = "https://raw.githubusercontent.com/shenxiaocam/ACDNE/c6e8ffd13c0243329c109ba8e41e6be5b94a9df4/ACDNE_codes/input/"
"""Where the authors publish the files, at the one commit that holds them."""

LIMIT = 64 * 2 ** 20
"""Largest download in bytes; the files have about one million."""


def load(name: str, root: str = "", two_labels: str = "first", key: str = "dataset.name") -> Data:
    """One network: ``x`` ``[V, 6775]`` (which words a paper has, 0 or 1), ``edge_index`` ``[2, E]``, ``y`` ``[V]`` and ``num_two``.

    The counts of words are made binary, and the graph undirected and simple. Some papers have two of the five labels: 581 in ACMv9,
    166 in Citationv1, 15 in DBLPv7; their number is in ``num_two``. The files do not name the classes, and published lists of them
    do not agree on an order, so the classes stay numbers. Files are read by ``scipy.io.loadmat``, which parses MATLAB's format and
    unpickles nothing.

    Args:
        name: ``acmv9``, ``citationv1`` or ``dblpv7``; case does not matter.
        root: data folder, see :func:`datasets.data_folder`.
        two_labels: a paper with two labels has the ``first`` one, or none (``drop``): then it is neither trained on nor scored.
        key: the config key that asks for it, for errors.

    Raises:
        InputError: unknown name or option; the file is absent and cannot be downloaded, or is not that network.
    """
    member = name.lower()
    if member not in NODES:
        raise InputError(key, name, ", ".join(NODES))
    if two_labels not in TWO_LABELS:
        raise InputError("two_labels", two_labels, ", ".join(TWO_LABELS))
    data = _find(member, root, key)
    y = data.y if two_labels == "first" else data.y.masked_fill(data.two, -1)
    return Data(x=data.x, edge_index=data.edge_index, y=y, num_nodes=data.num_nodes, cleaned=data.cleaned, num_two=int(data.two.sum()))


def _find(member: str, root: str, key: str) -> Data:
    homes = [folder / "citation" for folder in (datasets.data_folder(root), datasets.cache_folder())]
    data = _present(member, homes)
    if data is None:
        # One process downloads, and others wait for its file.
        with datasets.locked(datasets.cache_folder() / f"citation-{member}.lock"):
            data = _present(member, homes)
            data = _download(member, homes, key) if data is None else data
    return data


def _present(member: str, homes: list[Path]) -> Data | None:
    for home in homes:
        file = home / f"{member}.mat"
        if file.is_file():
            state = file.stat()
            return _read(file, state.st_size, state.st_mtime_ns)
    return None


def _download(member: str, homes: list[Path], key: str) -> Data:
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        file = Path(folder) / f"{member}.mat"
        try:
            with urlopen(URL + file.name, timeout=30) as answer:
                file.write_bytes(answer.read(LIMIT))
        except (OSError, HTTPException) as error:
            files = ", ".join(f"{other}.mat" for other in NODES)
            raise InputError(key, member, f"a network to download it from {URL} ({type(error).__name__} now), or put into {homes[0]} "
                             f"these files: {files}") from error
        data = _read.__wrapped__(file)  # only a file that is what it should be is kept
        datasets.keep(Path(folder), homes)
    return data


@lru_cache(maxsize=2)
def _read(file: Path, size: int = 0, changed: int = 0) -> Data:
    """A network of a file; size and time of change make another file of the same name another entry of the cache."""
    key, nodes = f"citation/{file.name}", NODES[file.stem]
    try:
        fields = scipy.io.loadmat(file, variable_names=("network", "attrb", "group"))
    except Exception as error:
        raise InputError(key, str(file), f"a MATLAB file ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error
    shapes = {"network": (nodes, nodes), "attrb": (nodes, WORDS), "group": (nodes, CLASSES)}
    for field, shape in shapes.items():
        value = fields.get(field)
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if getattr(value, "shape", None) != shape or kind not in "biuf":
            raise InputError(f"{key}: {field}", None if value is None else (value.shape, str(value.dtype)), f"numbers of shape {shape}")
    group = _dense(fields["group"]) > 0
    y = np.where(group.any(1), group.argmax(1), -1)
    edges = np.stack(sp.coo_matrix(fields["network"]).nonzero()).astype(np.int64)
    data = datasets.clean(Data(x=torch.from_numpy(_dense(fields["attrb"]) > 0), y=torch.from_numpy(y), edge_index=torch.from_numpy(edges)),
                           key)
    data.two = torch.from_numpy(group.sum(1) > 1)
    return data


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix

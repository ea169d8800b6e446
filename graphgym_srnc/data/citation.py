"""The citation networks ACMv9, Citationv1 and DBLPv7: shared words and five shared classes.

The files are those of Shen et al., Adversarial Deep Network Embedding for Cross-Network Node
Classification (AAAI 2020).
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

from graphgym_srnc.atomic import regular
from graphgym_srnc.cache import cache_folder, locked
from graphgym_srnc.data import cleaning, home, untrusted
from graphgym_srnc.errors import InputError

NODES = {"acmv9": 9360, "citationv1": 8935, "dblpv7": 5484}
"""Names and numbers of nodes; a network is in ``citation/<name>.mat`` below the data folder."""

WORDS, CLASSES = 6775, 5
URL = ("https://raw.githubusercontent.com/shenxiaocam/ACDNE/"
       "c6e8ffd13c0243329c109ba8e41e6be5b94a9df4/ACDNE_codes/input/")
"""Where the authors publish the files, at the one commit that holds them."""

LIMIT = 64 * 2 ** 20
"""Largest download in bytes; the files have about one million."""


def load(name: str, root: str = "", two_labels: str = "first", key: str = "name") -> Data:
    """One network: ``x`` ``[V, 6775]`` (0 or 1), ``edge_index`` ``[2, E]``, ``y``, ``num_two``.

    The counts of words are made binary, and the graph undirected and simple. Some papers have two
    of the five labels: 581 in ACMv9, 166 in Citationv1, 15 in DBLPv7; their number is in
    ``num_two``. The files do not name the classes, and published lists of them do not agree on an
    order, so the classes stay numbers.

    Args:
        name: ``acmv9``, ``citationv1`` or ``dblpv7``; case does not matter.
        root: see :func:`home.data_folder`.
        two_labels: a paper with two labels has the ``first`` one, or none (``drop``).
        key: what errors call the name.

    Raises:
        InputError: unknown name; the file is absent and cannot be downloaded, or is another one.
    """
    member = name.lower()
    if member not in NODES:
        raise InputError(key, name, ", ".join(NODES))
    homes = home.homes("citation", root)
    data = _present(member, homes)
    if data is None:
        # One process downloads, and others wait for its file.
        with locked(cache_folder() / f"citation-{member}.lock", f"the files of {member}"):
            data = _present(member, homes)
            data = _download(member, homes, key) if data is None else data
    y = data.y if two_labels == "first" else data.y.masked_fill(data.two, -1)
    return Data(x=data.x, edge_index=data.edge_index, y=y, num_nodes=data.num_nodes,
                cleaned=data.cleaned, num_two=int(data.two.sum()))


@lru_cache(maxsize=2)
def read(file: Path, size: int = 0, changed: int = 0) -> Data:
    """The network in a file, with ``two`` ``[V]``: which papers have two labels.

    It is read by ``scipy.io.loadmat``, which parses MATLAB's format and unpickles nothing. Size and
    time of change make another file of the same name another entry of the cache.

    Raises:
        InputError: it is not that network.
    """
    key, nodes = f"citation/{file.name}", NODES[file.stem]
    try:
        fields = scipy.io.loadmat(regular(file), variable_names=("network", "attrb", "group"))
    except Exception as error:
        allowed = f"a MATLAB file ({type(error).__name__}: {untrusted.reason(error)})"
        raise InputError(key, str(file), allowed) from error
    shapes = {"network": (nodes, nodes), "attrb": (nodes, WORDS), "group": (nodes, CLASSES)}
    for field, shape in shapes.items():
        value = fields.get(field)
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if getattr(value, "shape", None) != shape or kind not in "biuf":
            found = None if value is None else (value.shape, str(value.dtype))
            raise InputError(f"{key}: {field}", found, f"numbers of shape {shape}")

    group = _dense(fields["group"]) > 0
    y = np.where(group.any(1), group.argmax(1), -1)
    edges = np.stack(sp.coo_matrix(fields["network"]).nonzero()).astype(np.int64)
    tensors = {"x": _dense(fields["attrb"]) > 0, "y": y, "edge_index": edges}
    data = Data(**{field: torch.from_numpy(value) for field, value in tensors.items()})
    data = cleaning.clean(data, key)
    data.two = torch.from_numpy(group.sum(1) > 1)
    return data


def _present(member: str, homes: list[Path]) -> Data | None:
    """The network of the first file that is there."""
    for file in (folder / f"{member}.mat" for folder in homes):
        if file.is_file():
            state = file.stat()
            return read(file, state.st_size, state.st_mtime_ns)
    return None


def _download(member: str, homes: list[Path], key: str) -> Data:
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        file = Path(folder) / f"{member}.mat"
        try:
            with urlopen(URL + file.name, timeout=30) as answer:
                file.write_bytes(answer.read(LIMIT))
        except (OSError, HTTPException) as error:
            allowed = (f"a network to download it from {URL} ({type(error).__name__} now), or put "
                       f"into {homes[0]} these files: {', '.join(f'{n}.mat' for n in NODES)}")
            raise InputError(key, member, allowed) from error
        data = read.__wrapped__(file)  # only a file that is what it should be is kept
        home.keep(Path(folder), homes)
    return data


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix

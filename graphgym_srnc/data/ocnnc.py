"""The networks of open-set cross-network classification: Citation-v1, DBLP-v4 and ACM-v8.

The files are those of Shen et al., Open-set Cross-network Node Classification via Unknown-excluded
Adversarial Graph Domain Alignment (AAAI 2025).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphgym_srnc.data import cleaning, matlab, untrusted
from graphgym_srnc.errors import InputError

NODES = {"citation-v1": 9737, "dblp-v4": 8653, "acm-v8": 8806}
"""Names and numbers of nodes; a network is in ``ocnnc/<name>.mat`` below the data folder."""

WORDS, CLASSES = 7786, 9
KNOWN = 5
"""Classes ``0 .. KNOWN - 1`` are the known ones of the benchmark, the others its unknown class."""

URL = (
    "https://raw.githubusercontent.com/3480430977/UAGA/"
    "4ef2f8fa6c2a18760ef9d9f8ef90d4ee4f92c227/data/"
)
"""Where the authors publish the files, at one fixed commit."""


def load(name: str, root: str = "", key: str = "name") -> Data:
    """One network: ``x`` ``[V, 7786]`` (counts of words), ``edge_index`` ``[2, E]``, ``y`` ``[V]``.

    The files do not name the classes, so they stay numbers, 0 to 8.

    Args:
        name: ``citation-v1``, ``dblp-v4`` or ``acm-v8``; case does not matter.
        root: see :func:`graphgym_srnc.data.home.data_folder`.
        key: what errors call the name.

    Raises:
        InputError: unknown name; the file is absent and cannot be downloaded, or is another one.
    """
    return matlab.load("ocnnc", URL, NODES, _read, name, root, key)


def _read(file: Path) -> Data:
    key, nodes = f"ocnnc/{file.name}", NODES[file.stem]
    shapes = {"adjacency_matrix": (nodes, nodes), "features": (nodes, WORDS), "labels": (1, nodes)}
    fields = matlab.matrices(file, key, shapes)
    y = untrusted.dense(fields["labels"])[0]
    if not np.isin(y, range(CLASSES)).all():
        message = f"the labels are from {y.min()} to {y.max()}"
        hint = f"Use whole numbers from 0 to {CLASSES - 1}"
        raise InputError.plain(f"{key}: labels", message, hint)
    data = Data(
        x=torch.from_numpy(untrusted.dense(fields["features"]).astype(np.float32)),
        edge_index=torch.from_numpy(np.stack(sp.coo_matrix(fields["adjacency_matrix"]).nonzero())),
        y=torch.from_numpy(y.astype(np.int64)),
    )
    return cleaning.clean(data, key)

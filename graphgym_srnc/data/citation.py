"""The citation networks ACMv9, Citationv1 and DBLPv7: shared words and five shared classes.

The files are those of Shen et al., Adversarial Deep Network Embedding for Cross-Network Node
Classification (AAAI 2020).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphgym_srnc.data import cleaning, matlab, untrusted

NODES = {"acmv9": 9360, "citationv1": 8935, "dblpv7": 5484}
"""Names and numbers of nodes; a network is in ``citation/<name>.mat`` below the data folder."""

WORDS, CLASSES = 6775, 5
URL = (
    "https://raw.githubusercontent.com/shenxiaocam/ACDNE/"
    "c6e8ffd13c0243329c109ba8e41e6be5b94a9df4/ACDNE_codes/input/"
)
"""Where the authors publish the files, at the one commit that holds them."""


def load(name: str, root: str = "", two_labels: str = "first", key: str = "name") -> Data:
    """One network: ``x`` ``[V, 6775]`` (0 or 1), ``edge_index`` ``[2, E]``, ``y``, ``num_two``.

    The counts of words are made binary. Some papers have two of the five labels: 581 in ACMv9, 166
    in Citationv1, 15 in DBLPv7; their number is in ``num_two``. Classes are numbers, because the
    files do not name them and published lists disagree on their order.

    Args:
        name: ``acmv9``, ``citationv1`` or ``dblpv7``; case does not matter.
        root: see :func:`home.data_folder`.
        two_labels: a paper with two labels has the ``first`` one, or none (``drop``).
        key: what errors call the name.

    Raises:
        InputError: unknown name; the file is absent and cannot be downloaded, or is another one.
    """
    data = matlab.load("citation", URL, NODES, _read, name, root, key).clone("y")
    data.num_two = int(data.two.sum())
    if two_labels == "drop":
        data.y = data.y.masked_fill(data.two, -1)
    return data


def _read(file: Path) -> Data:
    """The network in a file, with ``two`` ``[V]``: which papers have two labels."""
    key, nodes = f"citation/{file.name}", NODES[file.stem]
    shapes = {"network": (nodes, nodes), "attrb": (nodes, WORDS), "group": (nodes, CLASSES)}
    fields = matlab.matrices(file, key, shapes)
    group = untrusted.dense(fields["group"]) > 0
    data = Data(
        x=torch.from_numpy(untrusted.dense(fields["attrb"]) > 0),
        y=torch.from_numpy(np.where(group.any(1), group.argmax(1), -1)),
        edge_index=torch.from_numpy(np.stack(sp.coo_matrix(fields["network"]).nonzero())),
    )
    data = cleaning.clean(data, key)
    data.two = torch.from_numpy(group.sum(1) > 1)
    return data

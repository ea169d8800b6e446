"""Citation networks in MATLAB files of their authors, found on disk or downloaded.

The classes are numbers, because the files do not name them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Mapping
from urllib.request import urlopen

import numpy as np
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphgym_srnc.data import catalogue, cleaning, home, untrusted
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular

LIMIT = 64 * 2**20  # largest download in bytes; the files have about one million


@dataclass(eq=False)
class Family:
    """Networks of one paper; each is ``<family>/<name>.mat`` below the data folder."""

    name: str
    url: str  # where the authors publish the files, at one fixed commit
    nodes: Mapping[str, int]  # names and numbers of nodes
    words: int
    classes: int
    matrices: tuple[str, str, str]  # of links [V, V], words [V, F], and labels

    def load(self, name: str, root: str = "", key: str = "name") -> Data:
        """One network: ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` and ``y`` ``[V]``."""
        if name not in self.nodes:
            raise InputError(key, name, ", ".join(self.nodes))
        member = f"{name}.mat"
        place = home.folder_of(self.name, root)
        if (place / member).is_file():
            return read(self, place / member)
        with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
            file = Path(folder) / member
            try:
                with urlopen(self.url + member, timeout=30) as answer:
                    file.write_bytes(answer.read(LIMIT))
            except (OSError, HTTPException) as error:
                raise InputError.plain(
                    key,
                    f"{member} cannot be downloaded from {self.url} ({type(error).__name__})",
                    f"Put these files into {place}: {'.mat, '.join(self.nodes)}.mat",
                ) from error
            data = read(self, file)  # only a file that is what it should be is kept
            home.keep(Path(folder), place)
        return data


CITATION = Family(
    "citation",  # Shen et al., Adversarial Deep Network Embedding ..., AAAI 2020
    "https://raw.githubusercontent.com/shenxiaocam/ACDNE/"
    "c6e8ffd13c0243329c109ba8e41e6be5b94a9df4/ACDNE_codes/input/",
    {"acmv9": 9360, "citationv1": 8935, "dblpv7": 5484},
    6775,
    5,
    ("network", "attrb", "group"),
)
BLOG = Family(
    "blog",  # of BlogCatalog, by the authors of the citation networks
    CITATION.url,
    {"Blog1": 2300, "Blog2": 2896},
    8189,
    6,
    CITATION.matrices,
)
OCNNC = Family(
    "ocnnc",  # Shen et al., Open-set Cross-network Node Classification ..., AAAI 2025
    "https://raw.githubusercontent.com/3480430977/UAGA/"
    "4ef2f8fa6c2a18760ef9d9f8ef90d4ee4f92c227/data/",
    {"citation-v1": 9737, "dblp-v4": 8653, "acm-v8": 8806},
    7786,
    9,
    ("adjacency_matrix", "features", "labels"),
)


def mag_file(name: str, root: str, key: str) -> Path:
    """The file of a country's papers in ogbn-mag, which no program can download.

    Liu et al., "Pairwise Alignment ...", ICML 2024, publish it.

    Raises:
        InputError: it is not in the data folder.
    """
    file = home.folder_of("mag", root) / catalogue.network_file("mag", name)
    if not file.is_file():
        raise InputError.plain(
            key,
            f"the file {file.name} is missing",
            f"Download it from the data sets of pygda, and put it into {file.parent}",
        )
    return file


@lru_cache(maxsize=4)
def read(family: Family, file: Path) -> Data:
    """The network in a file.

    Where labels are a matrix of groups, words are made binary, and a node with two labels has the
    first one.
    """
    key = f"{family.name}/{file.name}"
    count = family.nodes[file.stem]
    classes = family.classes
    one_hot = family.matrices == CITATION.matrices
    shapes = (count, count), (count, family.words), (count, classes) if one_hot else (1, count)
    with reading(file, "a readable MATLAB file", key):
        # It unpickles nothing.
        loaded = scipy.io.loadmat(regular(file), variable_names=[*family.matrices])
        found = [untrusted.sparse_matrix(loaded[name]) for name in family.matrices]
        for name, shape, value in zip(family.matrices, shapes, found):
            if value.dtype.kind not in "biuf" or value.shape != shape:
                is_now = f"{value.dtype} of shape {value.shape}"
                raise ValueError(f"{name} is {is_now}, and must be numbers of shape {shape}")
        links = found[0]
        x, y = map(untrusted.dense, found[1:])
        if one_hot:
            x = x > 0
            y = np.where((y > 0).any(1), (y > 0).argmax(1), -1)[None]
        if not np.isin(y, range(-1, classes)).all():
            raise ValueError(f"the labels are from {y.min()} to {y.max()}, not below {classes}")
    data = Data(
        x=torch.from_numpy(x.astype(np.float32)),
        edge_index=torch.from_numpy(np.stack(sp.coo_matrix(links).nonzero())),
        y=torch.from_numpy(y[0].astype(np.int64)),
    )
    return cleaning.clean(data, key)

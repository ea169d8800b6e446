"""How many papers ogbn-arxiv has of each year and class, counted from its raw files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

with open(Path(__file__).with_name("ogbn_arxiv_papers.csv"), encoding="utf-8") as file:
    (_, *years), *lines = csv.reader(file)

CLASS_NAMES = tuple(name for name, *_ in lines)
"""arXiv's names of the classes, in the order of their labels."""

YEARS = np.array(years, dtype=np.int64)
"""The years with a paper; some early ones are surely wrong, and are kept as they are."""

COUNTS = np.array([counts for _, *counts in lines], dtype=np.int64)
"""Papers of each class and year, ``[N, len(YEARS)]``."""


def papers() -> tuple[np.ndarray, np.ndarray]:
    """Year and class of each of the 169,343 papers, ``[V]`` each, sorted by class and year."""
    label, year = np.indices(COUNTS.shape).reshape(2, -1)
    return np.repeat(YEARS[year], COUNTS.ravel()), np.repeat(label, COUNTS.ravel())

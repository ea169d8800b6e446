"""A node table and a list of links to play with: made-up documents of seven topics, two of which nobody has labelled."""
from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from graphgym_srnc.data import block_model
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.data.folder import whole
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits

TOPICS = ("astronomy", "botany", "cooking", "dance", "economics", "fishing", "geology")
UNLABELLED = 2
"""So many of the last topics have no label."""

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
SHARED, OWN = 300, 40
"""Words that all topics use, and words of each one's own."""


def write(out: Path, *, num_nodes: int = 20_000, labelled: float = 0.05, seed: int = 0, overwrite: bool = False) -> None:
    """Write ``nodes.csv`` (id, title, year, label), ``edges.csv`` (from, to) and ``answers.csv`` (id, topic), which training does not read.

    Links and words follow a degree-corrected block model (:func:`graphgym_srnc.data.block_model.dcsbm`): 80 % of the links are within
    topics, 45 % of a title's words are its topic's own.

    Args:
        out: the folder.
        num_nodes: number of documents.
        labelled: share of the documents of labelled topics that have a label.
        seed: decides everything.
        overwrite: replace what is there.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    if not 200 <= num_nodes <= 1_000_000:
        raise InputError("--nodes", num_nodes, "200 to 1000000")
    if not 0 < labelled <= 1:
        raise InputError("--labelled", labelled, "a share above 0, 1 at most")
    rng = splits.generator(seed, "example")
    zipf = 1 / (np.arange(SHARED) + 10.0)
    topics = np.zeros((len(TOPICS), SHARED + OWN * len(TOPICS)))
    topics[:, :SHARED] = 0.55 * zipf / zipf.sum()
    own = zipf[:OWN] / zipf[:OWN].sum()
    for number in range(len(TOPICS)):
        topics[number, SHARED + OWN * number:SHARED + OWN * (number + 1)] = 0.45 * own
    graph = clean(block_model.dcsbm(num_nodes=num_nodes, shares=block_model.class_shares(len(TOPICS), 3.0, rng), topics=topics,
                                            rng=rng, avg_degree=6.0), "example")
    words = np.array(_words(topics.shape[1], rng))
    topic, year = graph.y.numpy(), rng.randint(1990, 2025, num_nodes)
    shown = (rng.random_sample(num_nodes) < labelled) & (topic < len(TOPICS) - UNLABELLED)
    for number in range(len(TOPICS) - UNLABELLED):
        shown[np.flatnonzero(topic == number)[:5]] = True  # a small graph keeps a few of each
    ids = [f"doc-{number:06d}" for number in rng.permutation(num_nodes)]
    titles = [" ".join(rng.permutation(words[row.nonzero()[0]])).capitalize() for row in graph.x.bool().numpy()]
    row, column = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].tolist()
    with whole(out, overwrite) as folder:
        labels = [TOPICS[own] if seen else "" for own, seen in zip(topic, shown)]
        _csv(folder / "nodes.csv", ("id", "title", "year", "label"), zip(ids, titles, year.tolist(), labels))
        _csv(folder / "edges.csv", ("from", "to"), ((ids[a], ids[b]) for a, b in zip(row, column)))
        _csv(folder / "answers.csv", ("id", "topic"), zip(ids, (TOPICS[own] for own in topic)))


def _words(count: int, rng: np.random.RandomState) -> list[str]:
    """Different words of three syllables."""
    chosen = rng.permutation(len(SYLLABLES) ** 3)[:count]
    base = len(SYLLABLES)
    return [SYLLABLES[n // base ** 2] + SYLLABLES[n // base % base] + SYLLABLES[n % base] for n in chosen]


def _csv(path: Path, header: tuple[str, ...], rows: object) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)

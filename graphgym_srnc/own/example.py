"""Made-up documents of seven topics, two of which nobody has labelled, as tables to play with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas

from graphgym_srnc.data import block_model
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.data.folder import check_place, whole
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits

_LINES = Path(__file__).with_name("example_words.txt").read_text(encoding="utf-8").splitlines()
SHARED, *OWN = (line.partition(": ")[2].split() for line in _LINES)
TOPICS = tuple(line.partition(": ")[0] for line in _LINES[1:])
"""Words that all topics use, words of each topic, and the topics."""

UNLABELLED = 2
"""So many of the last topics have no label."""

WORDS = [*SHARED, *(word for words in OWN for word in words)]
SHARED_WORDS, TOPIC_WORDS = len(SHARED), 40


def write(
    out: Path,
    num_nodes: int = 20_000,
    labelled: float = 0.05,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Write ``nodes.csv`` (id, title, year, label), ``edges.csv`` (from, to) and ``answers.csv``
    (id, topic), which training does not read.

    Links and words follow :func:`graphgym_srnc.data.block_model.dcsbm`: 80 % of the links are
    within topics, 45 % of a title's words are its topic's own.

    Args:
        out: the folder.
        num_nodes: number of documents.
        labelled: share of the documents of labelled topics that have a label.
        seed: decides everything.
        overwrite: replace a folder that this program made.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    check_place(out, overwrite)
    if not 200 <= num_nodes <= 1_000_000:
        raise InputError("--nodes", num_nodes, "200 to 1000000")
    if not 0 < labelled <= 1:
        raise InputError("--labelled", labelled, "above 0 and at most 1")
    rng = splits.generator(seed, "example")
    word_shares = _word_shares()
    shares = block_model.class_shares(len(TOPICS), 3.0, rng)
    graph = clean(
        block_model.dcsbm(
            num_nodes=num_nodes, shares=shares, topics=word_shares, rng=rng, avg_degree=6.0
        ),
        "example",
    )
    words = np.array(WORDS)
    topic, year = graph.y.numpy(), rng.randint(1990, 2025, num_nodes)
    shown = (rng.random_sample(num_nodes) < labelled) & (topic < len(TOPICS) - UNLABELLED)
    for number in range(len(TOPICS) - UNLABELLED):
        shown[np.flatnonzero(topic == number)[:5]] = True  # a small graph keeps a few of each

    ids = np.array([f"doc-{number:06d}" for number in rng.permutation(num_nodes)])
    titles = [
        " ".join(rng.permutation(words[row.nonzero()[0]])).capitalize()
        for row in graph.x.bool().numpy()
    ]
    answers = np.array(TOPICS)[topic]
    labels = np.where(shown, answers, "")
    a, b = ids[graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()]
    with whole(out, overwrite) as folder:
        for name, columns in {
            "nodes": {"id": ids, "title": titles, "year": year, "label": labels},
            "edges": {"from": a, "to": b},
            "answers": {"id": ids, "topic": answers},
        }.items():
            pandas.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)


def _word_shares() -> np.ndarray:
    """How often each topic uses each word, ``[C, F]``: by Zipf's law, 45 % of its own words."""
    zipf = 1 / (np.arange(SHARED_WORDS) + 10.0)
    shares = np.zeros((len(TOPICS), SHARED_WORDS + TOPIC_WORDS * len(TOPICS)))
    shares[:, :SHARED_WORDS] = 0.55 * zipf / zipf.sum()
    for topic, row in enumerate(shares):
        first = SHARED_WORDS + TOPIC_WORDS * topic
        row[first : first + TOPIC_WORDS] = 0.45 * (zipf[:TOPIC_WORDS] / zipf[:TOPIC_WORDS].sum())
    return shares

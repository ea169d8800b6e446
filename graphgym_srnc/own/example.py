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

UNLABELLED = 2  # number of topics, the last ones, without labels


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
    within topics, 45 % of a title's words are its topic's own. ``labelled`` is the share of the
    documents of the other topics that have a label.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    check_place(out, overwrite)
    if not 200 <= num_nodes <= 1_000_000:
        raise InputError("--nodes", num_nodes, "200 to 1000000")
    if not 0 < labelled <= 1:
        raise InputError("--labelled", labelled, "above 0 and at most 1")
    rng = splits.generator(seed, "example")
    # By Zipf's law each topic takes 45 % of its words from its own.
    common, own = len(SHARED), len(OWN[0])
    zipf = 1 / (np.arange(common) + 10.0)
    word_shares = np.zeros((len(TOPICS), common + own * len(TOPICS)))  # [C, F]
    word_shares[:, :common] = 0.55 * zipf / zipf.sum()
    for number, row in enumerate(word_shares):
        first = common + own * number
        row[first : first + own] = 0.45 * (zipf[:own] / zipf[:own].sum())
    shares = block_model.class_shares(len(TOPICS), 3.0, rng)
    made = block_model.dcsbm(
        num_nodes=num_nodes, shares=shares, topics=word_shares, rng=rng, avg_degree=6.0
    )
    graph, words = clean(made, "example"), np.array(sum(OWN, SHARED))
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

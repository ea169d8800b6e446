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
        raise InputError("nodes", num_nodes, "200 to 1000000")
    if not 0 < labelled <= 1:
        raise InputError("labelled", labelled, "above 0 and at most 1")
    rng = splits.generator(seed, "example")
    shares = block_model.class_shares(len(TOPICS), 3.0, rng)
    made = block_model.dcsbm(
        num_nodes=num_nodes, shares=shares, topics=_word_shares(), rng=rng, avg_degree=6.0
    )
    graph = clean(made, "example")
    topic = graph.y.numpy()
    year = rng.randint(1990, 2025, num_nodes)
    shown = rng.random_sample(num_nodes) < labelled
    # A small graph keeps a few labels of each topic.
    shown[pandas.Series(topic).groupby(topic).head(5).index] = True
    ids = np.array([f"doc-{number:06d}" for number in rng.permutation(num_nodes)])
    words = np.array(sum(OWN, SHARED))
    titles = [" ".join(rng.permutation(words[row])).capitalize() for row in graph.x.bool().numpy()]
    answers = np.array(TOPICS)[topic]
    labels = np.where(shown & (topic < len(TOPICS) - UNLABELLED), answers, "")
    start, end = ids[graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()]
    tables = {
        "nodes": {"id": ids, "title": titles, "year": year, "label": labels},
        "edges": {"from": start, "to": end},
        "answers": {"id": ids, "topic": answers},
    }
    with whole(out, overwrite) as folder:
        for name, columns in tables.items():
            pandas.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)


def _word_shares() -> np.ndarray:
    """How often each topic uses each word, ``[C, F]``, by Zipf's law: 45 % are its own words."""
    zipf = 1 / (np.arange(len(SHARED)) + 10.0)
    own = zipf[: len(OWN[0])]
    common = np.tile(0.55 * zipf / zipf.sum(), (len(TOPICS), 1))
    return np.hstack([common, np.kron(np.eye(len(TOPICS)), 0.45 * (own / own.sum()))])

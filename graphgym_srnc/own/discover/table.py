"""The new clusters in words: names of nodes and features, typical words, text and CSV."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.core import text
from graphgym_srnc.core.text import plain
from graphgym_srnc.data import read
from graphgym_srnc.data.names import Names, of_folder
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import Cluster, Discovery, are_words, features, members

NAMELESS = Names(None, None, None)

LONGEST, NEAREST = 160, 2
"""Maximum length of a node's line, and number of known classes in a row."""

PRIOR = 0.1
"""Weight of the whole graph's counts as a prior; the larger, the more often a word must occur."""

FIGURES = {
    "newness": ("newness", ".2f"),
    "p_unknown": ("P(unknown)", ".2f"),
    "predicted_unknown": ("predicted unknown", ".0%"),
    "modularity": ("modularity", ".3f"),
    "conductance": ("conductance", ".2f"),
    "silhouette": ("silhouette", ".2f"),
}
"""Figures of a cluster, with their heads and formats in print."""

HEADS = ("cluster", "nodes", *(head for head, _ in FIGURES.values()), "nearest known classes")


class Row(NamedTuple):
    """A new cluster, its cells, its typical words and its most typical nodes."""

    cluster: Cluster
    cells: list[str]
    words: list[str]
    nodes: list[str]

    @property
    def title(self) -> str:
        """Its number, and its name if the user has given it one."""
        return ", ".join(filter(None, [str(self.cluster.number), plain(self.cluster.name)]))


def rows(discovery: Discovery, graph: Data, names: Names, top: int = 10) -> list[Row]:
    """The new clusters in words, the likeliest new class first.

    Args:
        discovery: the clusters.
        graph: with ``x`` ``[V, F]``.
        names: of nodes and feature columns.
        top: number of nodes and words of each cluster.
    """
    words = distinguishing(features(prepare(graph, "none").x), discovery.cluster.numpy(), top)
    result = []
    for index, cluster in enumerate(discovery.new, len(discovery.known)):
        shares = cluster.nearest[:NEAREST]
        nearest = [f"{plain(discovery.classes[k])} {share:.2f}" for k, share in shares]
        size = str(len(cluster.nodes))
        cells = [str(cluster.number), size, *figures(cluster), ", ".join(nearest)]
        own_words = [column_name(names, column) for column in words[index]]
        nodes = [node_name(names, node) for node in cluster.nodes[:top].tolist()]
        result.append(Row(cluster, cells, own_words, nodes))
    return result


def figures(cluster: Cluster, *chosen: str) -> list[str]:
    """Figures of a cluster in print, by default all."""
    cells = (format(getattr(cluster, name), FIGURES[name][1]) for name in chosen or FIGURES)
    return [cell.replace("%", " %") for cell in cells]


def to_text(rows: Sequence[Row]) -> str:
    """The table of figures, then the words and the most typical nodes of each cluster."""
    details = (
        f"cluster {row.title}: {', '.join(row.words) or 'no typical word'}\n"
        + "".join(f"  {node}\n" for node in row.nodes)
        for row in rows
    )
    return "\n".join([text.aligned([HEADS, *(row.cells for row in rows)]), *details])


def to_csv(rows: Sequence[Row], raw: bool = False) -> str:
    """A line per cluster, with figures in full precision; ``raw`` writes text unchanged."""
    head = ["cluster", "nodes", *FIGURES, "nearest_known_classes", "words", "typical_nodes", "name"]
    lines = []
    for row in rows:
        values = [getattr(row.cluster, figure) for figure in FIGURES]
        lists = " | ".join(row.words), " | ".join(row.nodes)
        size = len(row.cluster.nodes)
        lines.append([row.cluster.number, size, *values, row.cells[-1], *lists, row.cluster.name])
    return text.to_csv([head, *lines], raw)


# Names of nodes and feature columns.


def read_names(texts: str | None, words: str | None, folder: Path | None, graph: Data) -> Names:
    """Names of the nodes and feature columns of a graph.

    Args:
        texts: a file with the text of a node on each line, or a ``.csv`` with a column ``text`` and
            optionally ``id``.
        words: a file with the name of a feature column on each line.
        folder: folder of the graph, for names that no file gives; None = there is none.
        graph: with ``x`` ``[V, F]``.

    Raises:
        InputError: a file cannot be read, or has another number of lines than the graph has nodes
            or features.
    """
    names = of_folder(folder, graph.num_nodes, graph.num_features) if folder else NAMELESS
    if texts:
        is_table = texts.endswith(".csv")
        columns = read.table(Path(texts)).to_dict("list") if is_table else {"text": _lines(texts)}
        if "text" not in columns:
            message = f"{texts} has the columns {', '.join(columns)}"
            raise InputError.plain("--texts", message, "Add a column text")
        names = names._replace(ids=columns.get("id"), texts=columns["text"])
    if words:
        names = names._replace(words=_lines(words))
    for option, file, lines, count, what in (
        ("--texts", texts, names.texts, graph.num_nodes, "nodes"),
        ("--words", words, names.words, graph.num_features, "features"),
    ):
        if file and lines is not None and len(lines) != count:
            message = f"{file} has {len(lines)} lines for {count} {what}"
            raise InputError.plain(option, message, "Write one line for each")
    return names


def node_name(names: Names, node: int) -> str:
    """The id and the text of a node on one line."""
    id = names.ids[node] if names.ids is not None else f"node {node}"
    own = plain(names.texts[node]) if names.texts is not None else ""
    return text.short(f"{id}: {own}" if own else id, LONGEST)


def column_name(names: Names, column: int) -> str:
    """The word that a feature column stands for."""
    return plain(names.words[column])[:40] if names.words is not None else f"feature {column}"


def _lines(file: str) -> list[str]:
    return read.text(Path(file)).removesuffix("\n").split("\n")


# Words that are typical of a cluster.


def distinguishing(
    x: sp.csr_array | np.ndarray, group: np.ndarray, most: int = 10
) -> list[list[int]]:
    """The typical columns of each group, those with :math:`z` above 2, the largest first.

    Words count once per node (:func:`log_odds`); other features are compared by their means.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        most: maximum number of columns per group.
    """
    num_groups = group.max() + 1
    if are_words(x):
        present = sp.csr_array(x > 0, dtype=np.float64)
        counts = (members(group, num_groups) @ present).toarray()
        total = counts.sum(0)
        scores = [log_odds(count, total - count, PRIOR * np.maximum(total, 1)) for count in counts]
    else:
        dense = x.toarray() if isinstance(x, sp.csr_array) else x
        scores = [mean_difference(dense, group == number) for number in range(num_groups)]
    best = [np.argsort(-z, kind="stable")[:most] for z in scores]
    return [columns[z[columns] > 2].tolist() for z, columns in zip(scores, best)]


def log_odds(counts: np.ndarray, others: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""How much more a word is used in one group than in the rest, in standard errors.

    .. math:: z_w = \frac{\delta_w}{\sqrt{1 / a_w + 1 / b_w}}, \quad
              \delta_w = \ln \frac{a_w}{\sum_v a_v - a_w} - \ln \frac{b_w}{\sum_v b_v - b_w}, \quad
              a = y + \alpha, \ b = y' + \alpha

    Args:
        counts: :math:`y`, how often each word occurs in the group, ``[F]``.
        others: :math:`y'`, the same in the rest, ``[F]``.
        prior: :math:`\alpha`, above 0, ``[F]``.

    Returns:
        :math:`z`, ``[F]``.

    References:
        Weighted log-odds with an informative Dirichlet prior (Monroe, Colaresi and Quinn, Political
        Analysis 2008).
    """
    a, b = counts + prior, others + prior
    odds = [np.log(c / np.maximum(c.sum() - c, 1e-12)) for c in (a, b)]
    return (odds[0] - odds[1]) / np.sqrt(1 / a + 1 / b)


def mean_difference(x: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Welch's t of each column of ``x`` ``[V, F]`` between rows ``inside`` ``[V]`` and others."""
    a, b = x[inside], x[~inside]
    if not len(a) or not len(b):
        return np.zeros(x.shape[1])
    error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
    return (a.mean(0) - b.mean(0)) / np.maximum(error, 1e-12)

"""The new clusters in words, as a table in text and CSV."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.core.text import aligned, plain
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.clusters import Cluster, Discovery
from graphgym_srnc.own.discover.names import column_name, node_name
from graphgym_srnc.own.discover.words import distinguishing, features

NEAREST = 2
"""Known classes that a row names."""

FIGURES = {
    "newness": ("newness", ".2f"),
    "p_unknown": ("P(unknown)", ".2f"),
    "predicted_unknown": ("predicted unknown", ".0%"),
    "modularity": ("modularity", ".3f"),
    "conductance": ("conductance", ".2f"),
    "silhouette": ("silhouette", ".2f"),
}
"""Figures of a cluster, with their heads in print and their formats."""

HEADS = ("cluster", "nodes", *(head for head, _ in FIGURES.values()), "nearest known classes")


class Row(NamedTuple):
    """A new cluster: its cells, the words that set it apart, its most typical nodes, its name."""

    cluster: Cluster
    cells: list[str]
    words: list[str]
    nodes: list[str]
    name: str = ""

    @property
    def title(self) -> str:
        """Its number, and its name if the user has given it one."""
        return f"{self.cluster.number}" + f", {plain(self.name)}" * bool(self.name)


def rows(
    discovery: Discovery,
    graph: Data,
    classes: Sequence[str],
    names: Names,
    top: int = 10,
    cluster_names: Mapping[int, str] | None = None,
) -> list[Row]:
    """The new clusters in words, the likeliest new class first.

    Args:
        discovery: the clusters.
        graph: with ``x`` ``[V, F]``.
        classes: names of known classes.
        names: of nodes and feature columns.
        top: nodes and words of each cluster.
        cluster_names: those that the user has given, by number.
    """
    words = distinguishing(features(prepare(graph, "none").x), discovery.cluster.numpy(), top)
    return [
        Row(
            cluster,
            _cells(cluster, classes),
            [column_name(names, column) for column, _ in words[discovery.index(cluster)]],
            [node_name(names, node) for node in cluster.nodes[:top].tolist()],
            (cluster_names or {}).get(cluster.number, ""),
        )
        for cluster in discovery.new
    ]


def text(rows: Sequence[Row]) -> str:
    """The table of figures, then of each cluster its words and most typical nodes."""
    details = (
        f"cluster {row.title}: {', '.join(row.words) or 'no typical word'}\n"
        + "".join(f"  {node}\n" for node in row.nodes)
        for row in rows
    )
    return "\n".join([aligned([HEADS, *(row.cells for row in rows)]), *details])


def to_csv(rows: Sequence[Row], raw: bool = False) -> str:
    """A line for each cluster, every figure in full; ``raw`` leaves text as it is."""
    head = ["cluster", "nodes", *FIGURES, "nearest_known_classes", "words", "typical_nodes", "name"]
    lines = (
        [
            row.cluster.number,
            len(row.cluster.nodes),
            *(getattr(row.cluster, figure) for figure in FIGURES),
            row.cells[-1],
            " | ".join(row.words),
            " | ".join(row.nodes),
            row.name,
        ]
        for row in rows
    )
    return csv_of([head, *lines], raw)


def figures(cluster: Cluster, *chosen: str) -> list[str]:
    """Figures of a cluster in print, by default all."""
    cells = (format(getattr(cluster, name), FIGURES[name][1]) for name in chosen or FIGURES)
    return [cell.replace("%", " %") for cell in cells]


def _cells(cluster: Cluster, classes: Sequence[str]) -> list[str]:
    nearest = [f"{plain(classes[k])} {share:.2f}" for k, share in cluster.nearest[:NEAREST]]
    return [
        str(cluster.number),
        str(len(cluster.nodes)),
        *figures(cluster),
        ", ".join(nearest),
    ]

"""The new clusters in words, as a table in text and CSV."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse, prepare
from graphgym_srnc.core.text import aligned, plain
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.clusters import Cluster, Discovery
from graphgym_srnc.own.discover.names import column_name, node_name
from graphgym_srnc.own.discover.words import distinguishing

NEAREST = 2
"""Known classes that a row names."""

HEADS = (
    "cluster",
    "nodes",
    "newness",
    "P(unknown)",
    "predicted unknown",
    "modularity",
    "conductance",
    "silhouette",
    "nearest known classes",
)

FIGURES = (
    "cluster",
    "nodes",
    "newness",
    "p_unknown",
    "predicted_unknown",
    "modularity",
    "conductance",
    "silhouette",
)
"""Heads of columns of text, and of the figures in the CSV."""


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
    x = prepare(graph, "none").x
    words = distinguishing(
        x.matrix if isinstance(x, Sparse) else x.numpy(), discovery.cluster.numpy(), top
    )
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
    head = FIGURES + ("nearest_known_classes", "words", "typical_nodes", "name")
    lines = (
        (
            c.number,
            len(c.nodes),
            c.newness,
            c.p_unknown,
            c.predicted_unknown,
            c.modularity,
            c.conductance,
            c.silhouette,
            cells[-1],
            " | ".join(words),
            " | ".join(nodes),
            name,
        )
        for c, cells, words, nodes, name in rows
    )
    return csv_of([head, *lines], raw)


def _cells(cluster: Cluster, classes: Sequence[str]) -> list[str]:
    nearest = [f"{plain(classes[k])} {share:.2f}" for k, share in cluster.nearest[:NEAREST]]
    return [
        str(cluster.number),
        str(len(cluster.nodes)),
        f"{cluster.newness:.2f}",
        f"{cluster.p_unknown:.2f}",
        f"{100 * cluster.predicted_unknown:.0f} %",
        f"{cluster.modularity:.3f}",
        f"{cluster.conductance:.2f}",
        f"{cluster.silhouette:.2f}",
        ", ".join(nearest),
    ]

"""What was discovered, as a table in text and CSV, as pictures, and as one HTML page that needs nothing beside it."""
from __future__ import annotations

import base64
import csv
import io
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import jinja2
import numpy as np
from matplotlib.figure import Figure
from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse, prepare
from graphgym_srnc.figures import embedding
from graphgym_srnc.figures.style import INK, PALE, PALETTE, encode, style
from graphgym_srnc.own.discover.clusters import Cluster, Discovery
from graphgym_srnc.own.discover.evidence import Evidence
from graphgym_srnc.own.discover.words import distinguishing
from graphgym_srnc.report.html import png_size
from graphgym_srnc.text import aligned, guarded, plain

NEAREST, LONGEST = 2, 160
"""Known classes told of a cluster, and letters of a node's text."""

HEADS = ("cluster", "nodes", "newness", "P(unknown)", "called unknown", "modularity", "conductance", "silhouette", "nearest known classes")

MEANING = {
    "newness": "how likely the cluster is a class of its own: P(unknown), less up to half of it for edges that leave the cluster. It"
               " ranks the clusters.",
    "P(unknown)": "mean probability that the model gives the unknown class: how sure it is that the nodes are of no known class.",
    "called unknown": "share of the nodes that the model calls unknown, that is, whose likeliest class it is.",
    "modularity": "what the cluster adds to the modularity of the clustering: its share of edges inside it, less the share that its degrees"
                  " would have at random.",
    "conductance": "share of the edges' ends in the cluster that belong to edges which leave it; less is more separate.",
    "silhouette": "how much nearer its nodes are to its own centre than to the next one, from -1 to 1; around 0 clusters run together.",
    "nearest known classes": "where the model would put the nodes if it had to choose a known class, with its probability.",
    "words": "feature columns that its nodes have more often than others, by weighted log-odds; the surest first.",
}
"""What columns mean, to somebody who has not met them."""


class Names(NamedTuple):
    """Names for what is shown, or None: ids and texts of nodes ``[V]``, and words of feature columns ``[F]``."""

    ids: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    words: Sequence[str] | None = None

    def node(self, node: int) -> str:
        """A node in a line."""
        told = self.ids[node] if self.ids is not None else f"node {node}"
        text = plain(self.texts[node]) if self.texts is not None else ""
        return plain(f"{told}: {text}" if text else told)[:LONGEST]

    def word(self, column: int) -> str:
        """A feature column."""
        return plain(self.words[column])[:40] if self.words is not None else f"feature {column}"


class Told(NamedTuple):
    """A cluster in words: the cells of its row, the words that set it apart, and its most typical nodes."""

    cluster: Cluster
    cells: list[str]
    words: list[str]
    nodes: list[str]


def tell(found: Discovery, graph: Data, classes: Sequence[str], names: Names, top: int = 10) -> list[Told]:
    """The unaligned clusters in words, the likeliest new class first.

    Args:
        found: the clusters.
        graph: with ``x`` ``[V, F]``.
        classes: names of known classes.
        names: of nodes and words.
        top: nodes and words told of each.
    """
    x = prepare(graph, "none").x
    words = distinguishing(x.matrix if isinstance(x, Sparse) else x.numpy(), found.cluster.numpy(), top)
    told = []
    for one in found.new:
        nearest = ", ".join(f"{plain(classes[k])} {share:.2f}" for k, share in one.nearest[:NEAREST])
        own = [names.word(column) for column, _ in words.get(found.num_known - 1 + one.number, [])]
        cells = [str(one.number), str(len(one.nodes)), f"{one.newness:.2f}", f"{one.sure:.2f}", f"{100 * one.unknown:.0f} %",
                 f"{one.modularity:.3f}", f"{one.conductance:.2f}", f"{one.silhouette:.2f}", nearest]
        told.append(Told(one, cells, own, [names.node(node) for node in one.nodes[:top].tolist()]))
    return told


def text(told: Sequence[Told]) -> str:
    """The table of figures, then of each cluster its words and most typical nodes."""
    parts = [aligned([HEADS, *(one.cells for one in told)])]
    for one in told:
        parts.append("".join([f"cluster {one.cells[0]}: {', '.join(one.words) or 'no word sets it apart'}\n",
                              *(f"  {node}\n" for node in one.nodes)]))
    return "\n".join(parts)


def evidence_text(evidence: Evidence) -> str:
    """What the evidence says, in a sentence."""
    low, high = evidence.bracket
    said = ", ".join(f"{curve.name} {curve.suggestion}" for curve in evidence)
    return f"evidence on the number of clusters, known classes included: {low} to {high} ({said}); evidence, not the truth"


def to_csv(told: Sequence[Told]) -> str:
    """A line for each cluster, every figure in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cluster", "nodes", "newness", "p_unknown", "called_unknown", "modularity", "conductance", "silhouette",
                     "nearest_known_classes", "words", "typical_nodes"])
    for one, cells, words, nodes in told:
        writer.writerow(map(guarded, [one.number, len(one.nodes), one.newness, one.sure, one.unknown, one.modularity, one.conductance,
                                      one.silhouette, cells[-1], " | ".join(words), " | ".join(nodes)]))
    return out.getvalue()


@style()
def map_figure(found: Discovery) -> Figure:
    """A map of what was clustered (t-SNE of at most 2,000 nodes): unaligned clusters in colour with their numbers, known classes grey."""
    shown = embedding.sample(len(found.cluster))
    points, cluster = embedding.map_2d(found.state[shown].numpy(), "tsne"), found.cluster[shown].numpy()
    figure = Figure(figsize=(7.2, 5.6), dpi=130)
    axes = figure.subplots()
    known = cluster < found.num_known
    axes.scatter(*points[known].T, s=7, color="#CFCFCF", linewidths=0, label="clusters of known classes")
    for one in found.new:
        own = points[cluster == found.num_known - 1 + one.number]
        axes.scatter(*own.T, s=9, color=PALETTE[(one.number - 1) % len(PALETTE)], linewidths=0, alpha=0.85, label=f"cluster {one.number}")
    for one in found.new:
        own = points[cluster == found.num_known - 1 + one.number]
        if len(own):
            axes.annotate(str(one.number), np.median(own, 0), ha="center", va="center", fontweight="bold", color=INK,
                          bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": INK, "alpha": 0.9})
    axes.set(xticks=[], yticks=[], title="what was clustered, in two dimensions")
    axes.spines[:].set(visible=True, color=PALE)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2.5, handletextpad=0.3)
    return figure


@style()
def evidence_figure(evidence: Evidence, num_clusters: int) -> Figure:
    """The three curves over the number of clusters, each with its suggestion; the bracket shaded, the number taken dotted."""
    figure = Figure(figsize=(9.6, 2.9), dpi=130)
    low, high = evidence.bracket
    for index, (axes, curve) in enumerate(zip(figure.subplots(1, len(evidence)), evidence)):
        axes.axvspan(low - 0.4, high + 0.4, color="#EEEEEE", linewidth=0)
        axes.axvline(num_clusters, color=INK, linewidth=0.9, linestyle=":")
        axes.plot(curve.counts, curve.values, color=PALETTE[index], marker="o", markersize=3.5)
        axes.plot([curve.suggestion], [curve.values[curve.counts.index(curve.suggestion)]], "o", markersize=10, markerfacecolor="none",
                  markeredgecolor=INK)
        axes.set(title=f"{curve.name}: suggests {curve.suggestion}", xlabel="number of clusters |C|")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid()
    return figure


def pictures(found: Discovery, evidence: Evidence) -> dict[str, tuple[str, bytes]]:
    """Captions and PNG files by name."""
    total = len(found.known) + len(found.new)
    return {"map": ("Each dot is a node; nodes that lie together are about the same and look alike to the model (t-SNE). Grey: clusters of"
                    " known classes. Distances between groups say little.", encode(map_figure(found))),
            "evidence": ("Three curves over the number of clusters. Circle: what each suggests. Grey: from the least to the largest."
                         f" Dotted: the {total} clusters taken here.", encode(evidence_figure(evidence, total)))}


def render(title: str, told: Sequence[Told], found: Discovery, evidence: Evidence, drawn: Mapping[str, tuple[str, bytes]],
           classes: Sequence[str], again: str) -> str:
    """The page.

    Args:
        title: what was looked at.
        told: the unaligned clusters.
        found: all clusters.
        evidence: on their number.
        drawn: what :func:`pictures` gives.
        classes: names of known classes.
        again: the command that makes the page.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    images = {name: (caption, base64.b64encode(content).decode(), *png_size(content)) for name, (caption, content) in drawn.items()}
    known = [(plain(classes[one.known]), len(one.nodes), f"{one.sure:.2f}", f"{100 * one.unknown:.0f} %", f"{one.conductance:.2f}",
              f"{one.silhouette:.2f}") for one in found.known]
    called = int((found.label == found.num_known).sum())
    page = template.render(title=plain(title), told=told, heads=HEADS[:-1], meaning=MEANING, evidence=evidence, images=images, known=known,
                           nodes=len(found.cluster), called=called, total=len(found.known) + len(found.new), again=plain(again))
    return page.encode("utf-8", "replace").decode()

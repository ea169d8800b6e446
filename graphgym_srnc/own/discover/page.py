"""The HTML page of a discovery: pictures, an interactive map of all nodes, and tables."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from types import MappingProxyType
from typing import Any, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data.describe import FEW
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.clusters import Discovery, layout
from graphgym_srnc.own.discover.evidence import FLAT, Evidence
from graphgym_srnc.own.discover.table import Row
from graphgym_srnc.plots import embedding
from graphgym_srnc.plots.style import GREY, INK, PALE, PALETTE, encode, style
from graphgym_srnc.report.html import fill

MOST_NODES, LONGEST_TEXT = 200_000, 120
"""Maximum number of nodes on the map and of letters of a node's text, for a page below 40 MB."""

SIDE = 2**16 - 1
"""Coordinates are whole numbers from 0 to this, by the longer side of the map."""

RAMP = ("#2C7BB6", "#7FB6D6", "#C9B458", "#F0954A", "#C7361B")
"""P(unknown) from 0 to 1 in fifths."""

SCRIPT = Path(__file__).with_name("map.js").read_text(encoding="utf-8")
DIGEST = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""The script of the map, and its digest in the policy of the page, which runs no other script."""


def render(
    title: str,
    rows: Sequence[Row],
    discovery: Discovery,
    evidence: Evidence,
    pictures: Mapping[str, bytes],
    every_node: Mapping[str, Any],
    commands: Mapping[str, str],
    labels: Mapping[str, int] = MappingProxyType({}),
    warning: str = "",
) -> str:
    """The page as HTML that needs no other file.

    Args:
        title: title of the page.
        rows: the clusters in words.
        discovery: all clusters.
        evidence: on their number.
        pictures: result of :func:`pictures`.
        every_node: result of :func:`map_data`.
        commands: ``again`` writes the page again, ``naming`` names the clusters, and ``merge``
            begins a command that gives two clusters one name; the last two may be absent.
        labels: number of training labels of each known class.
        warning: on classes with few labels.
    """
    return fill(
        Path(__file__).with_name("page.html"),
        title=plain(title),
        rows=[row for row in rows if row.cluster.number],
        known=[row for row in rows if not row.cluster.number],
        evidence=evidence,
        flat=FLAT,
        images={name: base64.b64encode(png).decode() for name, png in pictures.items()},
        nodes=len(discovery.cluster),
        map=every_node,
        script=SCRIPT,
        digest=DIGEST,
        commands={name: plain(command) for name, command in commands.items()},
        labels=labels,
        few=FEW,
        warning=warning,
        called=int((discovery.label == len(discovery.known)).sum()),
        total=len(discovery.every),
    )


def pictures(discovery: Discovery, evidence: Evidence) -> dict[str, bytes]:
    """PNG files of the map and of the evidence."""
    curves = evidence_figure(evidence, len(discovery.every))
    return {"map": encode(map_figure(discovery)), "evidence": encode(curves)}


@style()
def map_figure(discovery: Discovery) -> Figure:
    """Figure of at most 2,000 nodes (t-SNE): new clusters in colour, known classes grey."""
    shown, known = embedding.sample(len(discovery.cluster)), len(discovery.known)
    points, cluster = layout(discovery)[shown], discovery.cluster[shown].numpy()
    figure = Figure(figsize=(7.2, 5.6), dpi=130)
    axes = figure.subplots()
    dots: dict[str, Any] = {"linewidths": 0, "alpha": 0.85}
    x, y = points[cluster < known].T
    axes.scatter(x, y, s=7, color=GREY, label="known classes", **dots)
    for k, color in enumerate(_colours(len(discovery.new), known)):
        new, (x, y) = discovery.new[k], points[cluster == known + k].T
        label = f"cluster {new.number}" + f": {new.name}" * bool(new.name)
        axes.scatter(x, y, s=9, color=color, label=short(label, 40), **dots)
    axes.set(xticks=[], yticks=[], title="map of the clustered nodes (t-SNE)")
    axes.spines[:].set(visible=True, color=PALE)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2.5, handletextpad=0.3)
    return figure


@style()
def evidence_figure(evidence: Evidence, num_clusters: int) -> Figure:
    """Figure of the curves with bands of one standard error; the number used is dotted."""
    figure = Figure(figsize=(9.6, 3.2), dpi=130)
    for color, axes, curve in zip(PALETTE, figure.subplots(1, len(evidence)), evidence):
        value, error = np.array(curve.values), np.array(curve.errors)
        axes.fill_between(curve.counts, value - error, value + error, color=color, alpha=0.25, lw=0)
        axes.plot(curve.counts, value, color=color, marker="o", markersize=3.5)
        axes.axvline(num_clusters, color=INK, linewidth=0.9, linestyle=":")
        suggested = value[curve.counts.index(curve.suggestion)]
        axes.plot([curve.suggestion], [suggested], "o", markersize=10, mfc="none", mec=INK)
        title = f"{curve.name}: suggests {curve.suggestion}"
        axes.set(title=title, xlabel="number of clusters |C|")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid()
    return figure


def map_data(discovery: Discovery, names: Names, words: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What the script of the map reads, as JSON values; arrays of one number per node are base64.

    Args:
        discovery: the clusters.
        names: of nodes.
        words: typical words of each new cluster, which stand for its name if it has none.
    """
    shown = embedding.sample(len(discovery.cluster), MOST_NODES)
    points = layout(discovery)[shown]
    low, high = points.min(0), points.max(0)
    places = ((points - low) * (SIDE / max((high - low).max(), 1e-12))).round()
    middle = (SIDE - places.max(0)) // 2
    places = (places + middle).astype(int) * (1, -1) + (0, SIDE)  # y points down on a screen

    def colouring(by: str, group: np.ndarray, called: Sequence[str], *colours: str) -> dict:
        own = list(map(plain, called))
        return {"by": by, "of": _packed(group), "names": own, "colours": list(colours)}

    known, cluster = len(discovery.known), discovery.cluster.numpy()[shown]
    label, p_unknown = discovery.label.numpy()[shown], discovery.posterior[:, -1].numpy()[shown]
    called = [f"known: {plain(name)}" for name in discovery.classes]
    for new, own in zip(discovery.new, words):
        name = new.name or ", ".join(own[:2])
        called.append(": ".join(filter(None, [f"new {new.number}", name])))
    fifth = np.minimum((p_unknown * len(RAMP)).astype(int), len(RAMP) - 1)
    fifths = [f"{k / 5:.1f} to {(k + 1) / 5:.1f}" for k in range(5)]
    by_class, colours = [*discovery.classes, "unknown"], _colours(len(discovery.new), known)
    nodes = shown.tolist()
    ids = [names.ids[node] if names.ids else f"node {node}" for node in nodes]
    texts = [names.texts[node][: 4 * LONGEST_TEXT] for node in nodes] if names.texts else None
    return {
        "x": _packed(places[:, 0]),
        "y": _packed(places[:, 1]),
        "colourings": [
            colouring("cluster", cluster, called, *[GREY] * known, *colours),
            colouring("class", label, by_class, *_colours(known), GREY),
            colouring("P(unknown)", fifth, fifths, *RAMP),
        ],
        "p": _packed(p_unknown * SIDE),
        "newness": [round(cluster.newness, 4) for cluster in discovery.every],
        "marks": [  # where the number and name of a new cluster stand
            [*np.median(places[inside], 0).round().astype(int).tolist(), short(name[4:], 30)]
            for k, name in enumerate(called)
            if k >= known and (inside := cluster == k).any()
        ],
        "ids": [short(id, LONGEST_TEXT) for id in ids],
        "texts": texts and [short(text, LONGEST_TEXT) for text in texts],
    }


def _colours(count: int, first: int = 0) -> list[str]:
    """Colours of classes, in which new clusters come after the known classes."""
    return [PALETTE[k % len(PALETTE)] for k in range(first, first + count)]


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.round().astype("<u2").tobytes()).decode()

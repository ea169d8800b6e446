"""What was discovered as pictures: a map of the clusters, and the evidence on their number."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.evidence import Evidence
from graphgym_srnc.plots import embedding
from graphgym_srnc.plots.style import INK, PALE, PALETTE, encode, style


class Picture(NamedTuple):
    """A PNG file and its caption."""

    caption: str
    png: bytes


def pictures(discovery: Discovery, evidence: Evidence) -> dict[str, Picture]:
    """All pictures by name."""
    total = len(discovery.known) + len(discovery.new)
    return {
        "map": Picture(
            "Each dot is a node; nodes with similar representations are close together (t-SNE). "
            "Grey: clusters of known classes. Distances between groups have little meaning.",
            encode(map_figure(discovery)),
        ),
        "evidence": Picture(
            "Three criteria over the number of clusters. Circle: the suggestion of each. Grey: "
            f"range of the suggestions. Dotted: the {total} clusters used here.",
            encode(evidence_figure(evidence, total)),
        ),
    }


@lru_cache(maxsize=1)
def layout(discovery: Discovery) -> np.ndarray:
    """A place ``[V, 2]`` for each node: t-SNE of at most 2,000 of them, and the others among the
    three of these that they are most like."""
    shown, state = embedding.sample(len(discovery.cluster)), discovery.state
    points = np.empty((len(state), 2))
    points[shown] = embedding.map_2d(state[shown].numpy(), "tsne")
    others = np.setdiff1d(np.arange(len(state)), shown)
    for part in np.array_split(others, len(others) // 4096 + 1):
        nearest = torch.cdist(state[part], state[shown]).topk(min(3, len(shown)), largest=False)
        weight = 1 / nearest.values.clamp(min=1e-6).numpy()
        near = points[shown][nearest.indices.numpy()]
        points[part] = (near * (weight / weight.sum(1, keepdims=True))[:, :, None]).sum(1)
    return points


@style()
def map_figure(discovery: Discovery) -> Figure:
    """New clusters in colour, known classes grey: t-SNE of at most 2,000 nodes."""
    shown = embedding.sample(len(discovery.cluster))
    points = layout(discovery)[shown]
    cluster = discovery.cluster[shown].numpy()
    figure = Figure(figsize=(7.2, 5.6), dpi=130)
    axes = figure.subplots()
    known = cluster < len(discovery.known)
    x, y = points[known].T
    axes.scatter(x, y, s=7, color="#CFCFCF", linewidths=0, label="clusters of known classes")
    members = {new.number: points[cluster == discovery.index(new)] for new in discovery.new}
    for number, dots in members.items():
        look: dict[str, Any] = {"s": 9, "linewidths": 0, "alpha": 0.85}
        color = PALETTE[(number - 1) % len(PALETTE)]
        axes.scatter(dots[:, 0], dots[:, 1], color=color, label=f"cluster {number}", **look)
    box = {"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": INK, "alpha": 0.9}
    for number, dots in members.items():
        if len(dots):
            x, y = np.median(dots, 0)
            look = {"ha": "center", "va": "center", "weight": "bold", "color": INK, "bbox": box}
            axes.text(x, y, str(number), **look)
    axes.set(xticks=[], yticks=[], title="map of the clustered nodes (t-SNE)")
    axes.spines[:].set(visible=True, color=PALE)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2.5, handletextpad=0.3)
    return figure


@style()
def evidence_figure(evidence: Evidence, num_clusters: int) -> Figure:
    """The three curves with their suggestions; the bracket shaded, the number taken dotted."""
    figure = Figure(figsize=(9.6, 2.9), dpi=130)
    low, high = evidence.bracket
    for color, axes, curve in zip(PALETTE, figure.subplots(1, len(evidence)), evidence):
        axes.axvspan(low - 0.4, high + 0.4, color="#EEEEEE", linewidth=0)
        axes.axvline(num_clusters, color=INK, linewidth=0.9, linestyle=":")
        axes.plot(curve.counts, curve.values, color=color, marker="o", markersize=3.5)
        suggested = curve.values[curve.counts.index(curve.suggestion)]
        circle: dict[str, Any] = {
            "markersize": 10,
            "markerfacecolor": "none",
            "markeredgecolor": INK,
        }
        axes.plot([curve.suggestion], [suggested], "o", **circle)
        axes.set_title(f"{curve.name}: suggests {curve.suggestion}")
        axes.set_xlabel("number of clusters |C|")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid()
    return figure

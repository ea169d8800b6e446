"""Pictures of a run: the confusion matrix, and an embedding coloured by group and by class. No pyplot, hence no global state."""
from __future__ import annotations

import io
from typing import TYPE_CHECKING, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#D9C400", "#332288", "#999933", "#882255", "#44AA99",
           "#AA4499")
"""Okabe and Ito's colours (their yellow darker, for white paper) and Tol's muted ones, told apart with the common colour
blindnesses; a second turn changes the marker."""

MARKERS = ("o", "^", "s", "D", "v")
MAPS = ("pca", "tsne")
MAX_POINTS = 2000


def confusion_figure(counts: np.ndarray, names: Sequence[str], title: str = "") -> Figure:
    """The confusion matrix ``[C, C]``: row = true class, colour = share of the row, text = count."""
    counts = np.asarray(counts)
    size = len(counts)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = max(4.2, 0.48 * size + 2.2)
    figure = Figure(figsize=(side + 0.6, side), dpi=110, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    if size <= 24:
        font = 9 if size <= 12 else 6.5
        for row, column in np.ndindex(size, size):
            if counts[row, column]:
                ink = "white" if share[row, column] > 0.55 else "#222222"
                axes.text(column, row, int(counts[row, column]), ha="center", va="center", fontsize=font, color=ink)
    short = [name if len(name) <= 16 else name[:15] + "…" for name in names]
    slanted = max(map(len, short)) > 3
    axes.set_xticks(range(size), short, fontsize=8, rotation=40 if slanted else 0, ha="right" if slanted else "center",
                    rotation_mode="anchor" if slanted else "default")
    axes.set_yticks(range(size), short, fontsize=8)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(title, fontsize=10)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.75)
    bar.set_label("share of the true class", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    return figure


def embedding_figure(points: np.ndarray, group: np.ndarray, label: np.ndarray, class_names: Sequence[str], title: str = "",
                     unseen: Sequence[int] = ()) -> Figure:
    """One map twice, side by side: coloured by group (the clusters) and by class.

    A group has the colour of the class that it overlaps with most, one to one (Hungarian), so that agreement shows as equal colour.

    Args:
        points: the map, ``[n, 2]``.
        group: group of each node, ``[n]``.
        label: class of each node, ``[n]``, in ``0 .. len(class_names) - 1``.
        class_names: one name per class.
        title: what stands above both panels.
        unseen: the classes without labels in training, drawn as crosses.
    """
    groups, group = np.unique(group, return_inverse=True)
    overlap = np.zeros((len(groups), len(class_names)), dtype=int)
    np.add.at(overlap, (group, label), 1)
    rows, columns = linear_sum_assignment(-overlap)
    colour = dict(zip(rows.tolist(), columns.tolist()))
    spare = iter(range(len(class_names), len(class_names) + len(groups)))
    colour = {index: colour[index] if index in colour else next(spare) for index in range(len(groups))}
    figure = Figure(figsize=(11.5, 5.2), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    order = sorted(range(len(groups)), key=lambda index: colour[index])
    _scatter(left, points, group, [(index, f"cluster {groups[index]}", colour[index], False) for index in order])
    _scatter(right, points, label, [(index, name, index, index in unseen) for index, name in enumerate(class_names)])
    left.set_title("by cluster", fontsize=10)
    right.set_title("by class" + (" (× = unseen in training)" if len(unseen) else ""), fontsize=10)
    figure.suptitle(title, fontsize=11)
    return figure


def _scatter(axes: Axes, points: np.ndarray, group: np.ndarray, items: Sequence[tuple[int, str, int, bool]]) -> None:
    # Drawn in random order, or the last group would hide the others; the same order each time.
    order = np.random.default_rng(0).permutation(len(points))
    present = [item for item in items if (group == item[0]).any()]
    style = {index: _style(shade, cross) for index, _, shade, cross in present}
    size = 14 if len(points) < 800 else 8
    for marker in dict.fromkeys(look["marker"] for look in style.values()):
        own = [node for node in order.tolist() if style[group[node]]["marker"] == marker]
        cross = marker == "x"
        axes.scatter(points[own, 0], points[own, 1], c=[style[group[node]]["color"] for node in own], marker=marker, alpha=0.75,
                     s=size * (1.6 if cross else 1), linewidths=0.9 if cross else 0)
    handles = [axes.scatter([], [], **style[index], s=28, label=name if len(name) <= 18 else name[:17] + "…")
               for index, name, _, _ in present[:24]]
    if len(present) > 24:
        handles.append(axes.scatter([], [], alpha=0, label=f"and {len(present) - 24} more"))
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False, handletextpad=0.3)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#BBBBBB")


def _style(shade: int, cross: bool) -> dict[str, str]:
    turn, colour = divmod(shade, len(PALETTE))
    return {"color": PALETTE[colour], "marker": "x" if cross else MARKERS[turn % len(MARKERS)]}


def map_2d(embedding: np.ndarray, how: str = "pca") -> np.ndarray:
    """A map ``[n, 2]`` of vectors ``[n, H]`` by PCA or t-SNE; draws from no global random generator.

    Raises:
        InputError: ``how`` is unknown.
    """
    if how not in MAPS:
        raise InputError("map", how, ", ".join(MAPS))
    centred = embedding - embedding.mean(0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    principal = left * scale
    if how == "pca" or len(embedding) < 10:
        return np.pad(principal, ((0, 0), (0, 2)))[:, :2]
    from sklearn.manifold import TSNE
    return TSNE(perplexity=min(30.0, (len(embedding) - 1) / 3), init="pca", random_state=0).fit_transform(principal[:, :50])


def sample(num_nodes: int, most: int = MAX_POINTS) -> np.ndarray:
    """At most so many node ids, sorted, the same ones each time."""
    if num_nodes <= most:
        return np.arange(num_nodes)
    return np.sort(np.random.default_rng(0).choice(num_nodes, most, replace=False))


def png(figure: Figure) -> bytes:
    """A figure as a PNG file."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()

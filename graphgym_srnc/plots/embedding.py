"""Two-dimensional maps of embeddings, coloured by cluster and by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

from graphgym_srnc.core.text import short
from graphgym_srnc.errors import InputError
from graphgym_srnc.plots.style import MARKERS, PALE, PALETTE, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

MAPS = ("pca", "tsne")
MAX_POINTS = 2000
MAX_COLUMNS = 5


def sample(num_nodes: int, most: int = MAX_POINTS) -> np.ndarray:
    """Sorted ids of at most ``most`` random nodes, the same in each call."""
    if num_nodes <= most:
        return np.arange(num_nodes)
    return np.sort(np.random.default_rng(0).choice(num_nodes, most, replace=False))


def principal(embedding: np.ndarray, most: int = 50) -> np.ndarray:
    """Principal components of vectors ``[n, H]``, ``[n, min(n, H, most)]``."""
    centred = embedding - embedding.mean(0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    return (left * scale)[:, :most]


def map_2d(embedding: np.ndarray, how: str = "pca") -> np.ndarray:
    """Map ``[n, 2]`` of vectors by PCA or t-SNE, independent of global random generators.

    Args:
        embedding: the vectors, ``[n, H]``.
        how: ``pca`` or ``tsne``.

    Raises:
        InputError: ``how`` is unknown.
    """
    if how not in MAPS:
        raise InputError("map", how, ", ".join(MAPS))
    axes = principal(embedding)
    if how == "pca" or len(embedding) < 10:
        return np.pad(axes, ((0, 0), (0, 2)))[:, :2]
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(embedding) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(axes)


def majority(group: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Majority class of the group of each node.

    Args:
        group: group of each node, ``[n]``.
        label: class ``0, 1, ...`` of each node, ``[n]``.

    Returns:
        Classes, ``[n]``.
    """
    groups, group = np.unique(group, return_inverse=True)
    counts = np.zeros((len(groups), label.max() + 1), dtype=int)
    np.add.at(counts, (group, label), 1)
    return counts.argmax(1)[group]


@style()
def embedding_figure(
    points: np.ndarray,
    group: np.ndarray,
    label: np.ndarray,
    class_names: Sequence[str],
    title: str = "",
    unseen: Sequence[int] = (),
    predicted: Sequence[str] = (),
) -> Figure:
    """Figure of a map in two panels, coloured by group (clusters or predictions) and by class.

    A group has the colour of the class it overlaps most with, matched one to one (Hungarian
    method). Equal colours therefore show agreement.

    Args:
        points: the map, ``[n, 2]``.
        group: group of each node, ``[n]``.
        label: class of each node, ``[n]``, in ``0 .. len(class_names) - 1``.
        class_names: names of the classes.
        title: title of the figure.
        unseen: classes without labels in training, drawn as crosses.
        predicted: names of the groups ``0, 1, ...`` if they are predicted classes and not clusters.
    """
    groups, group = np.unique(group, return_inverse=True)
    overlap = np.zeros((len(groups), len(class_names)), dtype=int)
    np.add.at(overlap, (group, label), 1)
    rows, columns = linear_sum_assignment(-overlap)
    colour = dict(zip(rows.tolist(), columns.tolist()))
    spare = iter(range(len(class_names), len(class_names) + len(groups)))
    colour = {
        index: colour[index] if index in colour else next(spare) for index in range(len(groups))
    }
    figure = Figure(figsize=(11.5, 5.2))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    order = sorted(range(len(groups)), key=lambda index: colour[index])
    named = {
        index: predicted[number] if len(predicted) else f"cluster {number}"
        for index, number in enumerate(groups)
    }
    by_group = [(index, named[index], colour[index], False) for index in order]
    by_class = [(index, name, index, index in unseen) for index, name in enumerate(class_names)]
    _legend(left, _scatter(left, points, group, by_group))
    _legend(right, _scatter(right, points, label, by_class))
    left.set_title("by prediction" if len(predicted) else "by cluster")
    right.set_title("by class" + (" (× = unseen in training)" if len(unseen) else ""))
    figure.suptitle(title)
    return figure


@style()
def episodes_figure(
    maps: Mapping[str, Mapping[int, tuple[np.ndarray, np.ndarray]]],
    class_names: Sequence[str],
    title: str = "",
    selected: int | None = None,
) -> Figure:
    """Figure of the training process as in the paper: one row per model, one column per episode.

    Args:
        maps: map ``[n, 2]`` and class ``[n]`` that colours each node, by model and episode.
        class_names: names of the classes.
        title: title of the figure.
        selected: the episode to mark.
    """
    episodes = sorted({number for of_model in maps.values() for number in of_model})
    if len(episodes) > MAX_COLUMNS:
        shown = np.linspace(0, len(episodes) - 1, MAX_COLUMNS).round().astype(int)
        episodes = [episodes[index] for index in shown]
    figure = Figure(figsize=(2.7 * len(episodes) + 1.6, 2.6 * len(maps) + 0.6), dpi=130)
    panels = figure.subplots(len(maps), len(episodes), squeeze=False)
    items = [(index, name, index, False) for index, name in enumerate(class_names)]
    present: dict[int, PathCollection] = {}
    for row, (model, of_model) in zip(panels, maps.items()):
        for axes, number in zip(row, episodes):
            if number in of_model:
                present |= _scatter(axes, *of_model[number], items)
            else:
                axes.set_axis_off()
        row[0].set_ylabel(model.replace("_gnn", " GNN").replace("_", " "))
    for axes, number in zip(panels[0], episodes):
        # set_title() does not show on a panel that is switched off.
        text = f"episode {number}" + (" (selected)" if number == selected else "")
        axes.text(0.5, 1.02, text, transform=axes.transAxes, ha="center", va="bottom", fontsize=10)
    figure.suptitle(title)
    handles = [present[index] for index in sorted(present)]
    figure.legend(handles=handles, loc="outside right center", handletextpad=0.3)
    return figure


def _scatter(
    axes: Axes, points: np.ndarray, group: np.ndarray, items: Sequence[tuple[int, str, int, bool]]
) -> dict[int, PathCollection]:
    """Draw groups (number, name, colour, crosses or dots) and return handles for the legend."""
    # A fixed random order, so that no group hides the others.
    order = np.random.default_rng(0).permutation(len(points))
    present = [item for item in items if (group == item[0]).any()]
    look = {index: _look(shade, cross) for index, _, shade, cross in present}
    size = 14 if len(points) < 800 else 8
    for marker in dict.fromkeys(own["marker"] for own in look.values()):
        own = [node for node in order.tolist() if look[group[node]]["marker"] == marker]
        cross = marker == "x"
        axes.scatter(
            points[own, 0],
            points[own, 1],
            c=[look[group[node]]["color"] for node in own],
            marker=marker,
            alpha=0.75,
            s=size * (1.6 if cross else 1),
            linewidths=0.9 if cross else 0,
        )
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=PALE)
    return {
        index: axes.scatter([], [], **look[index], s=28, label=short(name, 40))
        for index, name, _, _ in present
    }


def _legend(axes: Axes, present: Mapping[int, PathCollection]) -> None:
    handles = list(present.values())
    if len(handles) > 24:
        more = axes.scatter([], [], alpha=0, label=f"and {len(handles) - 24} more")
        handles = [*handles[:24], more]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)


def _look(shade: int, cross: bool) -> dict[str, Any]:
    turn, colour = divmod(shade, len(PALETTE))
    return {"color": PALETTE[colour], "marker": "x" if cross else MARKERS[turn % len(MARKERS)]}

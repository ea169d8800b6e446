"""Two-dimensional maps of embeddings, coloured by cluster and by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from graphgym_srnc.core.text import short
from graphgym_srnc.errors import InputError
from graphgym_srnc.plots.style import PALE, look, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from numpy.typing import ArrayLike

MAPS = ("pca", "tsne")
MAX_POINTS = 2000
MAX_COLUMNS = 5
SHOWN = 24
"""Maximum number of groups in a legend."""


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
    """Majority class ``[n]`` of the group of each node, from groups and classes ``[n]``."""
    groups, group = np.unique(group, return_inverse=True)
    counts = np.zeros((len(groups), label.max() + 1), dtype=int)
    np.add.at(counts, (group, label), 1)
    return counts.argmax(1)[group]


@style()
def embedding_figure(
    points: np.ndarray,
    colour: np.ndarray,
    label: np.ndarray,
    outputs: Sequence[str],
    class_names: Sequence[str],
    title: str = "",
    unseen: Sequence[int] = (),
) -> Figure:
    """Figure of a map in two panels, coloured by prediction and by class.

    Equal colours show agreement.

    Args:
        points: the map, ``[n, 2]``.
        colour: predicted class of each node or majority class of its cluster, ``[n]``.
        label: class of each node, ``[n]``, in ``0 .. len(class_names) - 1``.
        outputs: names of the classes of ``colour``.
        class_names: names of the classes of ``label``.
        title: title of the figure.
        unseen: classes without labels in training, drawn as crosses.
    """
    figure = Figure(figsize=(11.5, 5.2))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, shown, names, crosses in (
        (left, colour, outputs, ()),
        (right, label, class_names, unseen),
    ):
        handles = list(scatter(axes, points, shown, names, crosses).values())
        if len(handles) > SHOWN:
            more = axes.scatter([], [], alpha=0, label=f"and {len(handles) - SHOWN} more")
            handles = [*handles[:SHOWN], more]
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        axes.legend(handles=handles, handletextpad=0.3, **place)
    left.set_title("by prediction")
    right.set_title("by class" + (" (× = unseen in training)" if unseen else ""))
    figure.suptitle(title)
    return figure


@style()
def episodes_figure(
    maps: Mapping[str, Mapping[int, tuple[ArrayLike, ArrayLike]]],
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
    present: dict[int, PathCollection] = {}
    for row, (model, of_model) in zip(panels, maps.items()):
        for axes, number in zip(row, episodes):
            if number in of_model:
                points, colours = map(np.asarray, of_model[number])
                present |= scatter(axes, points, colours, class_names)
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


def scatter(
    axes: Axes,
    points: np.ndarray,
    group: np.ndarray,
    names: Sequence[str],
    crosses: Sequence[int] = (),
) -> dict[int, PathCollection]:
    """Draw nodes by group, some as crosses, and return handles of present groups for the legend."""
    # A fixed random order, so that no group hides the others.
    order = np.random.default_rng(0).permutation(len(points))
    size = 14 if len(points) < 800 else 8
    looks = {index: look(index, "x" if index in crosses else None) for index in range(len(names))}
    for marker in dict.fromkeys(own["marker"] for own in looks.values()):
        nodes = [node for node in order.tolist() if looks[group[node]]["marker"] == marker]
        colours = [looks[group[node]]["color"] for node in nodes]
        large, lines = (1.6, 0.9) if marker == "x" else (1, 0)
        dots: dict[str, Any] = {"marker": marker, "s": size * large, "linewidths": lines}
        x, y = points[nodes].T
        axes.scatter(x, y, c=colours, alpha=0.75, **dots)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=PALE)
    return {
        index: axes.scatter([], [], **looks[index], s=28, label=short(names[index], 40))
        for index in np.unique(group).tolist()
    }

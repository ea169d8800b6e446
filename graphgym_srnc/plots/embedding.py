"""Two-dimensional maps of embeddings, coloured by cluster and by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np
from scipy.spatial import KDTree

from graphgym_srnc.core.text import short
from graphgym_srnc.errors import InputError
from graphgym_srnc.plots.style import FAINT, PALE, Figure, class_looks, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

MAPS = {"pca": "PCA", "tsne": "t-SNE"}  # projections and their printed names
FEW = 8  # maximum number of classes that PCA shows; t-SNE keeps more of them apart
MAX_POINTS = 2000
NEAREST = 6  # points from which one is pushed apart in each step
CELLS = 12  # cells per side in which the densest part of a group is found
SHOWN = 24  # maximum number of groups in a column of a legend
NO_LABEL = "no label"  # name of the nodes whose class is not given


def sample(num_nodes: int, most: int = MAX_POINTS) -> np.ndarray:
    """Sorted ids of at most ``most`` random nodes, the same in each call."""
    if num_nodes <= most:
        return np.arange(num_nodes)
    return np.sort(np.random.default_rng(0).choice(num_nodes, most, replace=False))


def principal(embedding: np.ndarray, most: int = 50) -> np.ndarray:
    """Principal components of vectors ``[n, H]``, ``[n, min(n, H, most)]``."""
    centred = (embedding - embedding.mean(0)).astype(np.float64)  # squares need twice the digits
    _, axes = np.linalg.eigh(centred.T @ centred)  # the largest last
    return centred @ axes[:, ::-1][:, : min(len(centred), most)]


def projection(how: str, num_classes: int) -> str:
    """``pca`` or ``tsne``; ``auto`` is PCA for at most ``FEW`` classes."""
    if how not in ("auto", *MAPS):
        raise InputError("map", how, ", ".join(("auto", *MAPS)))
    return how if how in MAPS else "pca" if num_classes <= FEW else "tsne"


def map_2d(embedding: np.ndarray, how: str = "pca") -> np.ndarray:
    """Map ``[n, 2]`` of vectors ``[n, H]`` by PCA or t-SNE, without global random generators."""
    axes = principal(embedding)
    if how == "pca" or len(embedding) < 10:
        return np.pad(axes, ((0, 0), (0, 2)))[:, :2]
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(embedding) - 1) / 3)
    # Fewer iterations and a coarser angle than scikit-learn's keep the neighbours, in a quarter of
    # its time.
    tsne = TSNE(perplexity=perplexity, init="pca", max_iter=350, angle=0.8, random_state=0)
    return tsne.fit_transform(axes)


@style()
def embedding_figure(
    points: np.ndarray,
    colour: np.ndarray,
    label: np.ndarray,
    outputs: Sequence[str],
    class_names: Sequence[str],
    title: str = "",
    unseen: Sequence[int] = (),
    by: str = "by prediction",
) -> Figure:
    """Figure of a map in two panels, coloured by prediction and by given class.

    A class has one colour in both panels, so every wrong prediction changes its colour.

    Args:
        points: the map, ``[n, 2]``.
        colour: predicted class of each node or majority class of its cluster, ``[n]``; -1 = none.
        label: class of each node, ``[n]``; -1 = no label.
        outputs, class_names: names of the classes of ``colour`` and of ``label``.
        title: title of the figure.
        unseen: classes without labels in training, drawn as crosses.
        by: title of the first panel.
    """
    figure = Figure(figsize=(9.6, 4.2))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    handles = scatter(right, points, label, class_names, unseen)
    handles |= scatter(left, points, colour, outputs)
    kind = "by true class"
    if NO_LABEL in handles:  # comes last
        handles[NO_LABEL] = handles.pop(NO_LABEL)
        kind = "by given label"
    left.set_title(by)
    has_crosses = bool(np.isin(label, list(unseen)).any())
    right.set_title(f"{kind} (× = unseen in training)" if has_crosses else kind)
    figure.suptitle(title)
    columns = 1 + (len(handles) - 1) // SHOWN
    words: dict[str, Any] = {"loc": "outside right center", "handletextpad": 0.3, "ncols": columns}
    words["markerscale"] = 1.5
    figure.legend(handles=list(handles.values()), **words)
    return figure


def densest(points: np.ndarray, cell: float) -> np.ndarray:
    """Which of the points ``[n, 2]`` lie in or beside the square of side ``cell`` with the most."""
    cells = np.floor(points / cell)
    _, at, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    middle = cells[at.ravel() == counts.argmax()][0]
    return np.abs(cells - middle).max(1) <= 1


def apart(points: np.ndarray, gap: float, steps: int = 12) -> np.ndarray:
    """The same map ``[n, 2]``, in which points that are almost in one place are pushed apart.

    In each step a point moves away from its nearest points, by half of what is missing to ``gap``.
    This distance is in sides of a square, of which one for each point would cover the map.
    """
    side = np.ptp(points, axis=0).max(initial=0)
    if side == 0:
        return points
    least = gap * side / np.sqrt(len(points))
    moved = points + np.random.default_rng(0).normal(scale=1e-3 * least, size=points.shape)
    count = min(NEAREST + 1, len(points))
    for _ in range(steps):
        far, near = KDTree(moved).query(moved, count, distance_upper_bound=least)
        away = moved[:, None] - moved[near.clip(max=len(points) - 1)]
        missing = np.where((far > 0) & (far < least), least - far, 0)
        moved = moved + (away * (missing / 2 / np.maximum(far, 1e-12))[:, :, None]).sum(1)
    return moved


def within(points: np.ndarray) -> np.ndarray:
    """The same map ``[n, 2]`` with outliers at its edge, so that they do not squeeze the others."""
    low, high = np.percentile(points, (1, 99), axis=0)
    margin = np.maximum(0.5 * (high - low), 1e-6)
    return points.clip(low - margin, high + margin)


def scatter(
    axes: Axes,
    points: np.ndarray,
    group: np.ndarray,
    names: Sequence[str],
    crosses: Sequence[int] = (),
) -> dict[str, PathCollection]:
    """Draw nodes by class (-1 = no label, paler than all), some as crosses; returns handles for a
    legend by present class."""
    points = within(points)
    looks = [*class_looks(names), {"color": FAINT, "marker": "."}]
    for index in crosses:
        looks[index]["marker"] = "x"
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=PALE)
    named = [*names, NO_LABEL]
    size = 14 if len(points) < 800 else 8
    handles = {}
    for index in np.unique(group).tolist():  # nodes without a label first, below the others
        x, y = points[group == index].T
        label = short(named[index], 40)
        handles[named[index]] = axes.scatter(x, y, **looks[index], s=size, alpha=0.75, label=label)
    return handles

"""Plots of tasks and fitted estimators, on given or new Matplotlib axes.

>>> from graphgym_srnc import plot
>>> plot.confusion(model, task)
>>> plot.episodes(model, ax=axes[0])

All functions return the axes. Without ``ax`` they create new axes with ``matplotlib.pyplot``, which
notebooks display and ``pyplot.show()`` opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from sklearn.utils.validation import check_is_fitted

from graphgym_srnc.api.estimator import truth
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.describe import describe
from graphgym_srnc.data.labels import UNKNOWN
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.plots import charts
from graphgym_srnc.plots import embedding as maps
from graphgym_srnc.plots.style import look, style
from graphgym_srnc.train.metrics import confusion_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from torch_geometric.data import Data

    from graphgym_srnc.api import Estimator

__all__ = ["confusion", "embedding", "episodes", "shift"]


def __dir__() -> list[str]:
    return __all__


def confusion(
    model: Estimator, graph: Any, y: Any = None, nodes: Any = None, ax: Axes | None = None
) -> Axes:
    """Plot the confusion matrix of the nodes that ``model.score(graph, y, nodes)`` counts.

    Raises:
        InputError: see ``Estimator.score``.
        NotFittedError: the model is not fitted yet.
    """
    title = getattr(graph, "name", "")
    (graph, true_class, shown) = truth(model, graph, y, nodes)
    classes = model.classes_.tolist()
    predicted = [classes.index(label) for label in model.predict(graph)[shown].tolist()]
    true = torch.from_numpy(true_class[shown])
    true[true < 0] = len(classes)  # labels of a class that the model does not have
    counts = confusion_matrix(torch.tensor(predicted), true, len(classes) + 1).numpy()
    ax = _axes(ax, (5.5, 5.0))
    charts.confusion_figure(counts, [*map(_name, classes), "another class"], title, ax)
    return ax


def embedding(
    model: Estimator,
    graph: Data,
    y: ArrayLike | None = None,
    how: str = "auto",
    ax: Axes | None = None,
) -> Axes:
    """Plot a 2-D map of at most 2,000 nodes, coloured by predicted class or by ``y``.

    Outliers are drawn at the edge.

    Args:
        model: a fitted estimator.
        graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        y: values ``[V]`` that colour the nodes, numbers with a fraction by a colour bar; by default
            the predicted classes.
        how: projection, ``pca``, ``tsne``, or ``auto`` by the number of classes of the model.
        ax: axes to draw on.

    Raises:
        InputError: ``how`` is unknown, or ``y`` has the wrong length.
    """
    colours = model.predict(graph) if y is None else np.asarray(y)
    if colours.shape != (graph.num_nodes,):
        hint = f"Give one value per node, shape [{graph.num_nodes}]"
        raise InputError.plain("y", f"the values have the shape {colours.shape}", hint)
    shown = maps.sample(graph.num_nodes)
    with renamed({"map": "how"}):
        projection = maps.projection(how, len(model.classes_))
    points = maps.within(maps.map_2d(model.transform(graph)[shown], projection))
    ax = _axes(ax, (5.6, 4.6))
    ax.set(xlabel=f"{maps.MAPS[projection]} 1", ylabel=f"{maps.MAPS[projection]} 2")
    if colours.dtype.kind == "f" and (colours % 1 > 0).any():
        with style():
            drawn = ax.scatter(points[:, 0], points[:, 1], c=colours[shown], s=8)
            ax.figure.colorbar(drawn, ax=ax)
        return ax
    every = colours.tolist()
    # The known classes come first, as in all figures, so that they keep their colours.
    known = [label for label in model.classes_.tolist() if _name(label) != UNKNOWN]
    others = sorted({*every}, key=lambda value: (_name(value) == UNKNOWN, value))
    values = list(dict.fromkeys([*known, *others]))
    with style():
        group = np.array([values.index(every[node]) for node in shown])
        handles = maps.scatter(ax, points, group, list(map(_name, values)))
        ax.legend(handles=list(handles.values()), handletextpad=0.3)
    return ax


def shift(task: ShiftTask, ax: Axes | None = None) -> Axes:
    """Plot the label distributions of source and target side by side.

    Raises:
        InputError: ``task`` is not a task.
    """
    if not isinstance(task, ShiftTask):
        message = "is not a ShiftTask"
        hint = "Make one with graphgym_srnc.shifts"
        raise InputError.plain("task", f"a {type(task).__name__} {message}", hint)
    summary = describe(task)
    ax = _axes(ax, (6.4, 1.6 + 0.4 * len(summary["labels"])))
    charts.shift_figure(summary, axes=ax)
    return ax


def episodes(model: Estimator, metric: str = "micro_f1", ax: Axes | None = None) -> Axes:
    """Plot a score of validation and test nodes by episode, and mark the selected episode.

    Raises:
        InputError: no episode has such a score.
        NotFittedError: the model is not fitted yet.
    """
    check_is_fitted(model, "method_")
    history = model.record_.history
    known = sorted({name for one in history for name in one.val | one.test})
    if metric not in known:
        raise InputError("metric", metric, ", ".join(known) or "none: no node was scored")
    ax = _axes(ax, (5.2, 3.4))
    with style():
        for number, (part, marker) in enumerate({"val": "o", "test": "^"}.items()):
            values = [getattr(one, part).get(metric, np.nan) for one in history]
            if not np.isnan(values).all():
                ax.plot(values, **look(number, marker), markersize=4, label=part)
        best = model.record_.best
        ax.axvline(best, color="#555555", linewidth=0.9, linestyle=":", label="selected")
        ax.set(xlabel="episode", ylabel=metric)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid()
        ax.legend()
    return ax


def _name(label: int | str) -> str:
    return UNKNOWN if label == HIDDEN else plain(label)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]

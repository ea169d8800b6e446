"""Pictures of tasks, fitted estimators and stored results, on axes of yours or new ones.

>>> from graphgym_srnc import plot
>>> plot.confusion(model, task)
>>> plot.episodes(model, ax=axes[0])

All functions return the axes. Without ``ax`` they are new ones of ``matplotlib.pyplot``, which a
notebook shows and ``pyplot.show()`` opens.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Sequence

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from graphgym_srnc.data.describe import describe
from graphgym_srnc.errors import InputError
from graphgym_srnc.figures import charts
from graphgym_srnc.figures import embedding as maps
from graphgym_srnc.figures import shift as labels
from graphgym_srnc.figures.style import MARKERS, PALETTE, style
from graphgym_srnc.task import HIDDEN, ShiftTask
from graphgym_srnc.text import plain, short
from graphgym_srnc.train.metrics import confusion_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch_geometric.data import Data

    from graphgym_srnc.api import Estimator

__all__ = ["confusion", "embedding", "episodes", "ranks", "reliability", "shift"]


def confusion(model: Estimator, task: ShiftTask, ax: Axes | None = None) -> Axes:
    """The confusion matrix of the test nodes of a task.

    Raises:
        InputError: it is no task.
        NotFittedError: the model is not fitted yet.
    """
    _check(task)
    check_is_fitted(model, "method_")
    names = [_name(label) for label in model.classes_.tolist()]
    number = {label: index for index, label in enumerate(model.classes_.tolist())}
    predicted = [number[label] for label in model.predict(task.target)[task.test].tolist()]
    truth = task.target.y[task.test].cpu()
    ax = _axes(ax, (5.5, 5.0))
    counts = confusion_matrix(torch.tensor(predicted), truth, len(names)).numpy()
    charts.confusion_figure(counts, names, task.name, ax)
    return ax


def reliability(model: Estimator, ax: Axes | None = None) -> Axes:
    """How often predictions were right over how sure they were, of the nodes that fit scored.

    Raises:
        InputError: no node was scored.
        NotFittedError: the model is not fitted yet.
    """
    check_is_fitted(model, "method_")
    curves = {part: curve for part, curve in model.verdict_.get("reliability", {}).items() if curve}
    if not curves:
        raise InputError("model", repr(model), "a fit with validation or test nodes")
    ax = _axes(ax, (4.8, 4.4))
    charts.reliability_figure(curves, axes=ax)
    return ax


def embedding(model: Estimator, graph: Data, y: Sequence | None = None, how: str = "pca",
              ax: Axes | None = None) -> Axes:
    """A map of at most 2,000 nodes, coloured by predicted class or by ``y`` ``[V]``.

    Args:
        model: a fitted estimator.
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        y: what colours the nodes; by default what the model predicts.
        how: ``pca`` or ``tsne``.
        ax: where to draw.

    Raises:
        InputError: ``how`` is unknown, or ``y`` is of another length.
    """
    colours = model.predict(graph) if y is None else np.asarray(y)
    if colours.shape != (graph.num_nodes,):
        raise InputError("y", colours.shape, f"a value for each node, [{graph.num_nodes}]")
    shown = maps.sample(graph.num_nodes)
    points = maps.map_2d(model.transform(graph)[shown], how)
    ax = _axes(ax, (5.6, 4.6))
    with style():
        values = np.unique(colours).tolist()
        for number, value in enumerate(sorted(values, key=lambda value: _name(value) == "unknown")):
            own = points[colours[shown] == value]
            turn, colour = divmod(number, len(PALETTE))
            ax.scatter(*own.T, s=9, color=PALETTE[colour], marker=MARKERS[turn % len(MARKERS)],
                       linewidths=0, alpha=0.8, label=short(_name(value)))
        ax.set(xticks=[], yticks=[])
        ax.legend(markerscale=2, handletextpad=0.3)
    return ax


def shift(task: ShiftTask, ax: Axes | None = None) -> Axes:
    """Label distributions of source and target, side by side.

    Raises:
        InputError: it is no task.
    """
    _check(task)
    summary = describe(task)
    ax = _axes(ax, (6.4, 1.6 + 0.4 * len(summary["labels"])))
    labels.figure(summary, axes=ax)
    return ax


def episodes(model: Estimator, metric: str = "micro_f1", ax: Axes | None = None) -> Axes:
    """A score on validation and test nodes by episode; the selected one is marked.

    Raises:
        InputError: no episode has such a score.
        NotFittedError: the model is not fitted yet.
    """
    check_is_fitted(model, "method_")
    record = model.record_
    curves = {part: [getattr(one, part).get(metric, np.nan) for one in record.history]
              for part in ("val", "test")}
    curves = {part: curve for part, curve in curves.items() if not np.isnan(curve).all()}
    if not curves:
        known = sorted({name for one in record.history for name in one.val | one.test})
        raise InputError("metric", metric, ", ".join(known) or "none: no node was scored")
    ax = _axes(ax, (5.2, 3.4))
    with style():
        for number, (part, curve) in enumerate(curves.items()):
            ax.plot(curve, color=PALETTE[number], marker=MARKERS[number], markersize=4, label=part)
        ax.axvline(record.best, color="#555555", linewidth=0.9, linestyle=":", label="selected")
        ax.set(xlabel="episode", ylabel=metric)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid()
        ax.legend()
    return ax


def ranks(*folders: str | os.PathLike, metric: str = "micro_f1", ax: Axes | None = None) -> Axes:
    """Mean ranks of the methods in folders of results, with the critical difference.

    Raises:
        InputError: a folder holds no results, or no two methods have a split in common.
    """
    from graphgym_srnc.report import compare, read
    rankings = compare.table(read.collect(folders, records=False).runs, [metric]).rankings
    if metric not in rankings:
        raise InputError("folders", ", ".join(map(str, folders)),
                         f"two methods with a {metric} on common splits")
    found = rankings[metric]
    ax = _axes(ax, (6.4, 2.4))
    charts.critical_difference_figure(found.ranks, found.difference, found.cliques, metric, ax)
    return ax


def _check(task: ShiftTask) -> None:
    if not isinstance(task, ShiftTask):
        raise InputError("task", type(task).__name__, "a ShiftTask, as graphgym_srnc.shifts makes")


def _name(label: int | str) -> str:
    return "unknown" if label == HIDDEN else plain(label)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot
    return pyplot.subplots(figsize=size, layout="constrained")[1]

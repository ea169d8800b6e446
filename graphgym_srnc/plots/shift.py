"""Figures of the label distributions of source and target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from graphgym_srnc.core.text import short
from graphgym_srnc.plots.style import PALETTE, panel, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure(
    summary: Mapping[str, Any], *later: Mapping[str, Any], axes: Axes | None = None
) -> Figure:
    """Figure of class sizes of training nodes, target nodes, and target nodes of other tasks.

    Args:
        summary: ``name`` of a task and ``labels``, the number of nodes of each class in ``source``
            and ``target``, as returned by :func:`graphgym_srnc.data.describe.describe`.
        later: summaries of other tasks with the same classes, for example of other years.
        axes: axes to draw on; by default those of a new figure.
    """
    summaries = (summary, *later)
    names = list(dict.fromkeys(name for one in summaries for name in one["labels"]))
    none = {"source": 0, "target": 0}
    trained = [summary["labels"].get(name, none)["source"] for name in names]
    counts = {"labelled training nodes": trained}
    for number, one in enumerate(summaries, 1):
        key = f"target {number}: {one['name']}" if later else "all target nodes"
        counts[key] = [one["labels"].get(name, none)["target"] for name in names]
    return label_shift_figure(
        counts, names, f"{summary['name']}: labels of source and target", axes
    )


@style()
def label_shift_figure(
    counts: Mapping[str, Sequence[int]],
    names: Sequence[str],
    title: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Figure of label distributions, one group of bars per class.

    Classes that are absent from the first distribution (the training nodes) are hatched.

    Args:
        counts: number of nodes of each class, ``[C]``, by distribution, for example ``training
            nodes`` and ``target nodes``.
        names: names of the classes.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.
    """
    trained = np.asarray(next(iter(counts.values()))) > 0
    height = 0.8 / len(counts)
    row = (0.12 + 0.13 * len(counts)) * (1 if len(names) <= 20 else 0.8)
    own = axes is None
    figure, axes = panel(axes, (6.4, min(1.6 + row * len(names), 30)))
    for index, (part, sizes) in enumerate(counts.items()):
        total = max(int(np.sum(sizes)), 1)
        centres = np.arange(len(names)) + (index - (len(counts) - 1) / 2) * height
        bars = axes.barh(
            centres,
            100 * np.asarray(sizes) / total,
            height=0.95 * height,
            color=PALETTE[index % len(PALETTE)],
            label=f"{short(part, 40)} ({total:,})",
            edgecolor="white",
            linewidth=0,
        )
        for bar, known in zip(bars, trained):
            bar.set_hatch("" if known else "////")
    axes.set_yticks(range(len(names)), [short(name, 40) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set(xlabel="share of nodes (%)", title=title)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    if own:
        figure.legend(loc="outside lower center", ncols=2 if max(map(len, counts)) <= 25 else 1)
    else:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    return figure

"""Figures of results, and the pictures of a page."""

from __future__ import annotations

import base64
import fnmatch
import itertools
import os
import re
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure

from graphgym_srnc.core.text import counted, method_name, plain, tell_changed
from graphgym_srnc.io import checksums
from graphgym_srnc.io.settings import is_volatile
from graphgym_srnc.plots import charts
from graphgym_srnc.plots.style import encode, save
from graphgym_srnc.report import compare
from graphgym_srnc.report.compare import Table
from graphgym_srnc.report.frame import COSTS, Collection, Experiment, config_keys
from graphgym_srnc.report.html import png_size
from graphgym_srnc.report.tables import name, title

OF_A_KIND = 12
"""Maximum number of pictures of one kind, such as confusion matrices."""

LARGEST = 1_500_000
"""Maximum size of one picture in bytes."""

Drawing = tuple[str, "Callable[[], bytes]"]
"""A caption, and a function that returns the content of a PNG file, or nothing."""


# Figures of results.


def draw_all(found: Collection, folder: str | os.PathLike, metric: str = "micro_f1") -> list[Path]:
    """Draw training curves and sensitivity of some results, as PNG and PDF.

    Args:
        found: result of :func:`graphgym_srnc.report.frame.collect`.
        folder: folder of the figures.
        metric: the score to draw.

    Returns:
        The written files.
    """
    table = compare.table(found.runs, [metric])
    figures = [*curves(table, found), *sensitivity(table, found.runs)]
    stems = ((re.sub(r"[^\w.=]+", "-", file).strip("-."), figure) for file, figure in figures)
    kinds = ("png", "pdf")
    return [
        save(figure, Path(folder) / f"{stem}.{kind}") for stem, figure in stems for kind in kinds
    ]


def curves(table: Table, found: Collection) -> Iterator[tuple[str, Figure]]:
    """Name and figure of the training curves of each column, by the settings of the table."""
    results, metric = found.results, table.selector
    for column in table.columns:
        panels: dict[str, dict[str, charts.Curve]] = {"validation": {}, "test": {}}
        for row in table.rows:
            runs = table.runs[(table.runs["row"] == row) & (table.runs["column"] == column)]
            own = {
                number: results[experiment][seed]
                for number, (experiment, seed) in enumerate(zip(runs["experiment"], runs["seed"]))
            }
            for panel, block in (("validation", "val"), ("test", "test")) if own else ():
                band = charts.band(100 * charts.history(own, block, metric))
                finite = np.isfinite(band[0])
                mean, low, high = (part[finite] for part in band)
                panels[panel][row] = np.flatnonzero(finite), mean, low, high
        figure = charts.curves_figure(panels, f"{name(metric)} (%)", column, names=table.rows)
        yield f"curves {column}", figure


def sensitivity(table: Table, runs: pandas.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Name and figure of the test score over each swept key of a task, other settings fixed."""
    metric = table.selector
    free = [key for key in config_keys(runs) if not is_volatile(key) and not key.endswith("seed")]
    for task, of in runs.groupby("task"):
        swept: dict[str, dict[str, charts.Curve]] = {}
        for (method, backbone), own in of.groupby(["method", "backbone"]):
            varying = [key for key in free if own[key].nunique(dropna=False) > 1]
            for key in varying:
                if own[key].map(_is_number).all():
                    curve = _over(own, key, [other for other in varying if other != key], metric)
                    if len(curve[0]) > 1:
                        swept.setdefault(key, {})[method_name(method, backbone)] = curve
        for key, found in sorted(swept.items()):
            label = f"test {name(metric)} (%)"
            figure = charts.curves_figure({"": found}, label, task, key, table.rows)
            yield f"sensitivity {task} {key}", figure


def _over(runs: pandas.DataFrame, key: str, others: Sequence[str], metric: str) -> charts.Curve:
    """The score over a key with all others fixed: most values, then best on validation."""
    slices = runs.groupby(list(others), dropna=False) if others else [((), runs)]
    chosen = max(
        (own for _, own in slices),
        key=lambda own: (own[key].nunique(), own.groupby(key)[f"val_{metric}"].mean().max()),
    )
    scores = 100 * chosen.set_index(chosen[key].astype(float))[f"test_{metric}"]
    mean, std = (scores.groupby(level=0).agg(how) for how in ("mean", partial(np.std, ddof=0)))
    return mean.index.to_numpy(), *(part.to_numpy() for part in (mean, mean - std, mean + std))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


# Pictures of a page.


class Picture(NamedTuple):
    """A PNG file as text, its size in pixels, and its caption."""

    caption: str
    data: str
    width: int
    height: int


class Gallery(NamedTuple):
    """Pictures of one kind, and the number of those that are not on the page."""

    pictures: list[Picture]
    left_out: int


def galleries(table: Table, found: Collection) -> dict[str, Gallery]:
    """The pictures of each kind."""
    kinds: dict[str, Iterable[Drawing]] = {
        "means": _means(table),
        "ranks": _ranks(table),
        "curves": _encoded(curves(table, found)),
        "sensitivity": _encoded(sensitivity(table, found.runs)),
        "confusion": _files(found.experiments, "confusion-selected", "reliability"),
        "embeddings": _files(found.experiments, "episodes", "*-selected"),
    }
    return {kind: _gallery(drawings) for kind, drawings in kinds.items()}


def _gallery(drawings: Iterable[Drawing]) -> Gallery:
    """The first pictures of a kind; the others are not drawn."""
    pictures: list[Picture] = []
    left_out = 0
    for caption, draw in drawings:
        content = draw() if len(pictures) < OF_A_KIND else b""
        size = png_size(content) if len(content) <= LARGEST else None
        if size is None:
            left_out += 1
        else:
            pictures.append(Picture(plain(caption), base64.b64encode(content).decode(), *size))
    return Gallery(pictures, left_out)


def _encoded(figures: Iterable[tuple[str, Figure]]) -> Iterator[Drawing]:
    for caption, figure in figures:
        yield caption, partial(encode, figure)


def _means(table: Table) -> Iterator[Drawing]:
    """The scores of the first metric, if there is anything to compare."""
    metric = table.metrics[0]
    percent = 1 if metric in COSTS else 100
    cells = table.cells[(table.cells["metric"] == metric) & table.cells["mean"].notna()]
    panels: dict[str, dict[str, charts.Mean]] = {}
    for cell in cells.itertuples():
        values = (cell.mean, cell.low, cell.high, cell.paper_mean)
        panels.setdefault(cell.column, {})[cell.row] = charts.Mean(*(percent * x for x in values))
    if len(table.rows) > 1:
        text = title(table, metric)
        figure = charts.scores_figure(panels, table.rows, text, table.oracles)
        yield f"{text}: mean and interval", partial(encode, figure)


def _ranks(table: Table) -> Iterator[Drawing]:
    """Mean ranks by the first metric; two rows need only the paired test."""
    ranking = table.rankings.get(table.metrics[0])
    if ranking is not None and len(ranking.ranks) > 2:
        blocks = counted(ranking.blocks, "split")
        figure = charts.critical_difference_figure(ranking.ranks, ranking.difference)
        yield f"{name(table.metrics[0])}: mean ranks over {blocks}", partial(encode, figure)


def _files(experiments: Sequence[Experiment], *patterns: str) -> Iterator[Drawing]:
    """Pictures of the first seed of each experiment that has any, pattern by pattern."""
    for pattern, experiment in itertools.product(patterns, experiments):
        for seed in sorted(experiment.results):
            folder = experiment.path / str(seed) / "figures"
            # Path.glob would skip a folder without permission.
            found = os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else ()
            paths = [folder / file for file in sorted(fnmatch.filter(found, f"{pattern}.png"))]
            if pattern == "*-selected":
                paths = [path for path in paths if not path.name.startswith("confusion")]
            for path in paths:
                what = path.stem.removesuffix("-selected").replace("_gnn", " GNN")
                caption = f"{experiment.name}, seed {seed}: {what.replace('_', ' ')}"
                yield caption, partial(_content, path)
            if paths:
                break


def _content(file: Path) -> bytes:
    """The content of a PNG file; empty for a link and a changed file."""
    if file.is_symlink() or not file.is_file():
        return b""
    with open(file, "rb") as opened:
        content = opened.read(LARGEST + 1)
    if len(content) <= LARGEST and checksums.is_edited(file):
        tell_changed(str(file))
        return b""
    return content

"""The pictures of a page: charts of the results, and those that runs left, while there is room."""

from __future__ import annotations

import base64
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

from matplotlib.figure import Figure

from graphgym_srnc.core.text import counted, plain, tell_changed
from graphgym_srnc.plots import charts, shift
from graphgym_srnc.plots.style import encode
from graphgym_srnc.report import intact, overview
from graphgym_srnc.report.compare import Table
from graphgym_srnc.report.grid import name, title
from graphgym_srnc.report.html import png_size
from graphgym_srnc.report.layout import LESS
from graphgym_srnc.report.read import COSTS, Collection, Experiment

MOST = 40
"""Pictures on a page."""

OF_A_KIND = 12
"""Pictures of one kind, such as confusion matrices."""

ROOM = 5_500_000
"""Bytes of all pictures; the page holds them as text of 4/3 that size."""

LARGEST = 1_500_000
"""Bytes of one picture."""

Drawing = tuple[str, Callable[[], bytes | None]]
"""A caption, and what makes the PNG file."""


class Picture(NamedTuple):
    """A PNG file as text, its size in pixels, and what stands below it."""

    caption: str
    data: str
    width: int
    height: int


class Gallery(NamedTuple):
    """Pictures of one kind, and how many are not on the page."""

    pictures: list[Picture]
    left_out: int


class Album:
    """Takes pictures as long as the page has room for them."""

    def __init__(self) -> None:
        self.left, self.room = MOST, ROOM

    def gallery(self, drawings: Iterable[Drawing]) -> Gallery:
        """The first pictures of a kind; they are made only where there is room."""
        pictures, left_out = [], 0
        for caption, draw in drawings:
            content = draw() if self.left and len(pictures) < OF_A_KIND else None
            small = content is not None and len(content) <= min(self.room, LARGEST)
            size = png_size(content) if small else None
            if size is None:
                left_out += 1
                continue
            self.left, self.room = self.left - 1, self.room - len(content)
            pictures.append(Picture(plain(caption), base64.b64encode(content).decode(), *size))
        return Gallery(pictures, left_out)


def galleries(table: Table, found: Collection, metric: str) -> dict[str, Gallery]:
    """The pictures of each kind, those of all experiments together first."""
    drawn, album = list(overview.figures_of(found.results, metric)), Album()
    kinds = {
        "means": _means(table),
        "ranks": _ranks(table),
        "labels": _labels(found),
        "curves": _charts(drawn, "curves"),
        "sensitivity": _charts(drawn, "sensitivity"),
        "confusion": _files(found.experiments, "confusion-selected", "reliability"),
        "embeddings": _files(found.experiments, "episodes", "*-selected"),
    }
    return {kind: album.gallery(drawings) for kind, drawings in kinds.items()}


def _means(table: Table) -> Iterator[Drawing]:
    """The scores of the first metric, if there is anything to compare."""
    metric = table.metrics[0]
    percent = 1 if metric in COSTS else 100
    panels: dict[str, dict[str, charts.Mean]] = {column: {} for column in table.columns}
    for (of, row, column), cell in table.cells.items():
        if of == metric:
            ends = cell.interval if cell.interval and cell.runs > 1 else (nan, nan)
            paper = cell.paper.mean / 100 if cell.paper else nan
            panels[column][row] = charts.Mean(
                *(percent * part for part in (cell.mean, *ends, paper))
            )
    panels = {column: means for column, means in panels.items() if means}
    sign = 1 if metric in LESS else -1
    heights = {
        row: fmean(means[row].mean for means in panels.values() if row in means)
        for row in table.rows
        if any(row in means for means in panels.values())
    }
    rows = sorted(heights, key=lambda row: (row not in table.oracles, sign * heights[row]))
    if len(rows) > 1:
        yield (
            f"{title(table, metric)}: mean and interval",
            partial(
                _drawn, charts.scores_figure, panels, rows, title(table, metric), table.oracles
            ),
        )


def _ranks(table: Table) -> Iterator[Drawing]:
    """Mean ranks by the first metric; of two rows the paired test says all."""
    for metric, ranking in list(table.rankings.items())[:1]:
        if len(ranking.ranks) < 3:
            return
        caption = f"{name(metric)}: mean ranks over {counted(ranking.blocks, 'split')}"
        yield (
            caption,
            partial(
                _drawn,
                charts.critical_difference_figure,
                ranking.ranks,
                ranking.difference,
                ranking.cliques,
            ),
        )


def _labels(found: Collection) -> Iterator[Drawing]:
    for caption, summary in overview.label_counts(found.results).items():
        yield caption, partial(_drawn, shift.figure, summary)


def _drawn(draw: Callable[..., Figure], *words: Any) -> bytes:
    return encode(draw(*words))


def _charts(drawn: Iterable[tuple[str, Figure]], kind: str) -> Iterator[Drawing]:
    for file, figure in drawn:
        if file.startswith(kind):
            axes = figure.axes[0]
            caption = f"{figure.get_suptitle()}: {axes.get_ylabel()} by {axes.get_xlabel()}"
            yield caption, partial(encode, figure)


def _files(experiments: Sequence[Experiment], *patterns: str) -> Iterator[Drawing]:
    """Pictures that the first drawn seed of each experiment left, pattern by pattern."""
    for pattern in patterns:
        for experiment in experiments:
            for seed in sorted(experiment.results):
                folder = experiment.path / str(seed) / "figures"
                paths = [] if folder.is_symlink() else sorted(folder.glob(f"{pattern}.png"))
                paths = [
                    path
                    for path in paths
                    if pattern != "*-selected" or not path.name.startswith("confusion")
                ]
                for path in paths:
                    what = path.stem.removesuffix("-selected").replace("_gnn", " GNN")
                    what = what.replace("_", " ")
                    yield f"{experiment.name}, seed {seed}: {what}", partial(_content, path)
                if paths:
                    break


def _content(path: Path) -> bytes | None:
    if path.is_symlink() or not path.is_file():
        return None
    with open(path, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) <= LARGEST and intact.picture(content):
        tell_changed(str(path))
        return None
    return content

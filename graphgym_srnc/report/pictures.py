"""Figures of results, and the pictures of a page."""

from __future__ import annotations

import base64
import fnmatch
import itertools
import os
import re
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure

from graphgym_srnc.core.text import counted, method_name, plain, tell_changed
from graphgym_srnc.io import checksums, store
from graphgym_srnc.io.settings import flatten, is_volatile
from graphgym_srnc.plots import charts
from graphgym_srnc.plots.events import image, write_events
from graphgym_srnc.plots.style import encode, save
from graphgym_srnc.report.compare import LESS, Table
from graphgym_srnc.report.frame import COSTS, Collection, Experiment
from graphgym_srnc.report.html import png_size
from graphgym_srnc.report.tables import name, title

MOST = 40
"""Maximum number of pictures on a page."""

OF_A_KIND = 12
"""Maximum number of pictures of one kind, such as confusion matrices."""

ROOM = 5_500_000
"""Maximum size of all pictures in bytes; the page holds them as text of 4/3 that size."""

LARGEST = 1_500_000
"""Maximum size of one picture in bytes."""

Runs = Mapping[int, store.Result]
"""The records of an experiment by seed."""

Drawing = tuple[str, "Callable[[], Figure] | Figure | Path"]
"""A caption, and a figure, a function that draws it, or a PNG file."""


# Figures of results.


def draw_all(
    results: Mapping[str, Runs], folder: str | os.PathLike, metric: str = "micro_f1"
) -> list[Path]:
    """Draw all figures of some results, as PNG and PDF, and as images for TensorBoard.

    Args:
        results: finished runs by experiment and seed.
        folder: folder of the figures.
        metric: the score to draw.

    Returns:
        The written files except those of TensorBoard.
    """
    folder = Path(folder)
    labels = (
        (_file("labels", caption), charts.shift_figure(summary))
        for caption, summary in label_counts(results).items()
    )
    paths = [
        save(figure, folder / f"{name}.{kind}")
        for name, figure in itertools.chain(figures_of(results, metric), labels)
        for kind in ("png", "pdf")
    ]
    if paths:
        images = [(image(f"figures/{path.stem}", path.read_bytes()), 0) for path in paths[::2]]
        write_events(folder, images)
    return paths


def label_counts(results: Mapping[str, Runs]) -> dict[str, dict[str, Any]]:
    """By task and seed, name and ``labels`` of each task whose records have such counts."""
    found: dict[str, dict[str, Any]] = {}
    for runs in results.values():
        task, labels = _first(runs)["task"], _first(runs).get("labels")
        if isinstance(labels, dict) and labels and all(map(_is_count, labels.values())):
            found.setdefault(task, {"name": task, "labels": labels, "seed": min(runs)})
    return {f"{task}, seed {one.pop('seed')}": one for task, one in found.items()}


def _is_count(count: Any) -> bool:
    sides = ("source", "target")
    return isinstance(count, dict) and all(isinstance(count.get(side), int) for side in sides)


def figures_of(
    results: Mapping[str, Runs], metric: str = "micro_f1"
) -> Iterator[tuple[str, Figure]]:
    """Name and figure of training curves by data set, and of scores over swept keys by task."""
    if not results:
        return
    frame = pandas.DataFrame([_described(runs, metric) for runs in results.values()])
    frame["data"] = _data_names(frame)
    # All legends have one order, by the mean test score.
    means = frame.groupby("method")["test"].mean() * (1 if metric in LESS else -1)
    order = sorted(means.index, key=lambda method: (means[method], method))
    for data, of in frame.groupby("data"):
        panels: dict[str, dict[str, charts.Curve]] = {"validation": {}, "test": {}}
        for method, sweep in _by_method(of, order):
            best = sweep.loc[sweep["val"].idxmax(), "runs"]
            for panel, block in (("validation", "val"), ("test", "test")):
                panels[panel][method] = _by_episode(charts.history(best, block, metric))
        figure = charts.curves_figure(panels, f"{name(metric)} (%)", str(data))
        yield _file("curves", data), figure
    for task, of in frame.groupby("task"):
        swept: dict[str, dict[str, charts.Curve]] = {}
        for method, sweep in _by_method(of, order):
            for key in sorted(set().union(*sweep["config"])):
                values = (config.get(key) for config in sweep["config"])
                if len(set(filter(_is_number, values))) > 1:
                    curve = _over(sweep, key, metric)
                    if len(curve[0]) > 1:
                        swept.setdefault(key, {})[method] = curve
        for key, found in swept.items():
            label = f"test {name(metric)} (%)"
            figure = charts.curves_figure({"": found}, label, str(task), key)
            yield _file("sensitivity", task, key), figure


def _described(runs: Runs, metric: str) -> dict[str, Any]:
    """An experiment as a row: its config has neither paths nor seeds."""
    first = _first(runs)
    config = {
        key: value
        for key, value in flatten(first["config"]).items()
        if not is_volatile(key) and not key.endswith("seed")
    }
    val, test = (
        fmean(result[block].get(metric, -np.inf) for result in runs.values())
        for block in ("val", "test")
    )
    return {
        "task": first["task"],
        "method": method_name(first["method"], first["backbone"]),
        "digest": first["digest"],
        "config": config,
        "val": val,
        "test": test,
        "runs": runs,
    }


def _data_names(frame: pandas.DataFrame) -> list[str]:
    """The task of each experiment with the keys of the data that differ between experiments."""
    values: dict[tuple[str, str], set[str]] = {}
    every = []
    for task, config in zip(frame["task"], frame["config"]):
        blocks = ("dataset", config["dataset.format"])
        own = {key: str(value) for key, value in config.items() if key.split(".")[0] in blocks}
        every.append((task, own))
        for key, value in own.items():
            values.setdefault((task, key), set()).add(value)
    return [
        ", ".join([task, *(f"{key}={own[key]}" for key in own if len(values[task, key]) > 1)])
        for task, own in every
    ]


def _by_method(
    frame: pandas.DataFrame, order: Sequence[str]
) -> Iterator[tuple[str, pandas.DataFrame]]:
    """The experiments of each method, each config once."""
    for method in order:
        sweep = frame[frame["method"] == method].drop_duplicates("digest")
        if len(sweep):
            yield method, sweep


def _over(sweep: pandas.DataFrame, key: str, metric: str) -> charts.Curve:
    """The score over a key with all others fixed: most values, then best on validation."""
    slices: dict[str, dict[float, Any]] = {}
    for row in sweep.itertuples():
        rest = {other: value for other, value in row.config.items() if other != key}
        if _is_number(row.config.get(key)):
            slices.setdefault(repr(sorted(rest.items(), key=str)), {})[row.config[key]] = row
    chosen = max(slices.values(), key=lambda of: (len(of), max(row.val for row in of.values())))
    values = sorted(chosen)
    bands = []
    for value in values:
        scores = [[result["test"].get(metric, np.nan)] for result in chosen[value].runs.values()]
        bands.append(charts.band(100 * np.array(scores)))
    mean, low, high = (np.concatenate(part) for part in zip(*bands))
    return values, mean.tolist(), low.tolist(), high.tolist()


def _by_episode(scores: np.ndarray) -> charts.Curve:
    band = charts.band(100 * scores)
    finite = np.isfinite(band[0])
    mean, low, high = (part[finite].tolist() for part in band)
    return np.flatnonzero(finite).tolist(), mean, low, high


def _first(runs: Runs) -> store.Result:
    return next(iter(runs.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _file(*words: Any) -> str:
    return "-".join(re.sub(r"[^\w.=]+", "-", str(word)).strip("-.") for word in words)


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


class Album:
    """Accepts pictures while the page has room for them."""

    def __init__(self) -> None:
        self.left, self.room = MOST, ROOM

    def gallery(self, drawings: Iterable[Drawing]) -> Gallery:
        """The first pictures of a kind. A picture is drawn only if there is room."""
        pictures: list[Picture] = []
        left_out = 0
        for caption, drawing in drawings:
            has_room = self.left and len(pictures) < OF_A_KIND
            content = _png(drawing) if has_room else b""
            size = png_size(content) if len(content) <= min(self.room, LARGEST) else None
            if size is None:
                left_out += 1
                continue
            self.left, self.room = self.left - 1, self.room - len(content)
            pictures.append(Picture(plain(caption), base64.b64encode(content).decode(), *size))
        return Gallery(pictures, left_out)


def _png(drawing: Callable[[], Figure] | Figure | Path) -> bytes:
    """The content of a PNG file; empty for a link, a damaged file and none at all."""
    if not isinstance(drawing, Path):
        return encode(drawing if isinstance(drawing, Figure) else drawing())
    if drawing.is_symlink() or not drawing.is_file():
        return b""
    with open(drawing, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) <= LARGEST and checksums.is_edited(drawing):
        tell_changed(str(drawing))
        return b""
    return content


def galleries(table: Table, found: Collection, metric: str) -> dict[str, Gallery]:
    """The pictures of each kind, those of all experiments together first."""
    drawn, album = list(figures_of(found.results, metric)), Album()
    kinds = {
        "means": _means(table),
        "ranks": _ranks(table),
        "labels": (
            (caption, partial(charts.shift_figure, summary))
            for caption, summary in label_counts(found.results).items()
        ),
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
    cells = table.cells[(table.cells["metric"] == metric) & table.cells["mean"].notna()]
    panels: dict[str, dict[str, charts.Mean]] = {}
    for cell in cells.itertuples():
        values = (cell.mean, cell.low, cell.high, cell.paper_mean)
        panels.setdefault(cell.column, {})[cell.row] = charts.Mean(*(percent * x for x in values))
    sign = 1 if metric in LESS else -1
    heights = cells.groupby("row")["mean"].mean() * sign
    rows = sorted(heights.index, key=lambda row: (row not in table.oracles, heights[row]))
    if len(rows) > 1:
        text = title(table, metric)
        panels = {column: panels[column] for column in table.columns if column in panels}
        draw = partial(charts.scores_figure, panels, rows, text, table.oracles)
        yield f"{text}: mean and interval", draw


def _ranks(table: Table) -> Iterator[Drawing]:
    """Mean ranks by the first metric; two rows need only the paired test."""
    for metric, ranking in list(table.rankings.items())[:1]:
        if len(ranking.ranks) > 2:
            words = ranking.ranks, ranking.difference, ranking.cliques
            caption = f"{name(metric)}: mean ranks over {counted(ranking.blocks, 'split')}"
            yield caption, partial(charts.critical_difference_figure, *words)


def _charts(drawn: Iterable[tuple[str, Figure]], kind: str) -> Iterator[Drawing]:
    for file, figure in drawn:
        if file.startswith(kind):
            axes = figure.axes[0]
            caption = f"{figure.get_suptitle()}: {axes.get_ylabel()} by {axes.get_xlabel()}"
            yield caption, figure


def _files(experiments: Sequence[Experiment], *patterns: str) -> Iterator[Drawing]:
    """Pictures of the first seed of each experiment that has any, pattern by pattern."""
    for pattern, experiment in itertools.product(patterns, experiments):
        for seed in sorted(experiment.results):
            folder = experiment.path / str(seed) / "figures"
            # An error is raised where a folder cannot be listed; glob would find nothing.
            names = os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else ()
            paths = [folder / file for file in sorted(fnmatch.filter(names, f"{pattern}.png"))]
            if pattern == "*-selected":
                paths = [path for path in paths if not path.name.startswith("confusion")]
            for path in paths:
                what = path.stem.removesuffix("-selected").replace("_gnn", " GNN")
                caption = f"{experiment.name}, seed {seed}: {what.replace('_', ' ')}"
                yield caption, path
            if paths:
                break

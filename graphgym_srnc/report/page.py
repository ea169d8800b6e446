"""Results as one self-contained HTML page: tables with tests, charts, warnings, versions.

Results may come from a stranger. Their text is escaped, only PNG files of limited size are
included, and links are not followed. All prose is in the template ``page.html``.
"""

from __future__ import annotations

import base64
import fnmatch
import itertools
import os
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from graphgym_srnc.core.text import counted, listed, plain, seeds, tell_changed
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic, checksums
from graphgym_srnc.plots import charts
from graphgym_srnc.plots.style import encode
from graphgym_srnc.report import citations, compare, held_out, html, sentences, summary, tables
from graphgym_srnc.report.arrange import SHARE
from graphgym_srnc.report.compare import Table
from graphgym_srnc.report.frame import COSTS, Collection, Experiment
from graphgym_srnc.report.names import method_name
from graphgym_srnc.report.render import Told
from graphgym_srnc.report.statistics import DECIMALS
from graphgym_srnc.report.summary import label_columns

# Scores that are compared by default, if they exist.
DEFAULT = (
    *("micro_f1", "hs", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc"),
    SHARE,
)
OF_A_KIND = 12  # maximum number of pictures of one kind, such as confusion matrices
# Maximum size of one picture in bytes, and of its sides in pixels: a small file may be large.
LARGEST = 1_500_000
SIDE = 8192
# A caption, and a function that returns the content of a PNG file, or nothing.
Drawing = tuple[str, "Callable[[], bytes]"]


def render(
    found: Collection,
    metrics: Sequence[str] = (),
    against: str | None = None,
    paper: str | None = None,
    ddof: int = 0,
    told: Told = list,
) -> str:
    """The page of all finished runs.

    Args:
        found: result of :func:`graphgym_srnc.report.frame.collect`.
        metrics: scores to compare; default: those of ``DEFAULT`` that exist.
        against: the row that the others are tested against; default: the one with the best mean
            rank.
        paper: one of ``paper.TABLES`` to show beside ours.
        ddof: 0 or 1, the standard deviation of ``stats.DEVIATIONS``.
        told: words the options in sentences for the reader, see ``errors.in_words``.

    Raises:
        InputError: no test score, an unknown metric, row or table, or no pairs with the row.
    """
    split = compare.scored_split(found.runs)
    usual = dict.fromkeys([*compare.default_metrics(found.runs, split)[:1], *DEFAULT])
    metrics = metrics or [metric for metric in usual if f"{split}_{metric}" in found.runs]
    if not metrics:
        raise InputError.plain("folders", "no run has a test score", code="no_test_score")
    row = against
    if row is None:
        # The other scores only cost time, unless one of them chooses the settings.
        ranked = metrics if metrics[0] in COSTS else metrics[:1]
        ranks = _compared(found, ranked, paper=paper).mean_ranks(metrics[0])
        if ranks:
            row = min(ranks, key=ranks.__getitem__)
    table = _compared(found, metrics, against=row, paper=paper, intervals=True, ddof=ddof)
    experiments = [experiment for experiment in found.experiments if experiment.results]
    rows = {one.name: summary.summarise(one.name, one.results, ddof) for one in experiments}
    tasks = found.every.set_index("experiment")["task"].to_dict()

    def place(one: Experiment) -> tuple[str, float, str]:
        row = rows[one.name]
        score = round(row.get("micro_f1", 0), DECIMALS)
        return tasks[one.name], -score, method_name(row["method"], row["backbone"])

    experiments.sort(key=place)
    return html.fill(
        Path(__file__).with_name("page.html"),
        curves=_gallery(_curves(table, found)),
        confusion=_gallery(_files(experiments, "confusion-selected", "reliability")),
        embeddings=_gallery(_files(experiments, "classifier-selected", "cluster_gnn-selected")),
        title=_title(found),
        tables=tables,
        citations=citations,
        sentences=sentences,
        summary=summary,
        table=table,
        picked=against is None,
        found=found,
        experiments=experiments,
        rows=[rows[one.name] for one in experiments],
        drawn=tables.name(table.selector),
        runs=counted(len(found.runs), "finished run"),
        count=counted(len(experiments), "experiment"),
        seeds=seeds(found.runs["seed"]),
        held_out=held_out,
        by_time=sorted(experiments, key=_finished),
        scored="held-out labels" if split == "val" else f"{split} nodes",
        told=told,
        selections=sorted({plain(rule) for rule in found.runs["selection"]}),
    )


def _title(found: Collection) -> str:
    """The title of a page: the data sets of runs on own graphs, else the folders of results."""
    if not found.runs["dataset.format"].eq("file").all():
        names = ", ".join(plain(folder.name or folder) for folder in found.folders)
        return f"Node classification under shift: {names}"
    data = found.runs["task"].map(lambda task: plain(Path(task).name)).drop_duplicates()
    return f"Node classification of {listed(data.tolist(), 3)}"


def _finished(one: Experiment) -> float:
    """When the first run of an experiment was finished."""
    records = (one.path / str(seed) / "result.json" for seed in one.results)
    return min(record.lstat().st_mtime for record in records)


def _gallery(drawings: Iterable[Drawing]) -> dict[str, Any]:
    """The first pictures of a kind, and the number of the others, which are not drawn."""
    pictures: list[dict[str, Any]] = []
    left_out = 0
    for caption, draw in drawings:
        content = draw() if len(pictures) < OF_A_KIND else b""
        size = png_size(content) if len(content) <= LARGEST else None
        if size is None:
            left_out += 1
            continue
        pictures.append(
            {
                "caption": plain(caption),
                "data": base64.b64encode(content).decode(),
                "width": size[0],
                "height": size[1],
            }
        )
    return {"pictures": pictures, "left_out": left_out, "most": OF_A_KIND}


def png_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a whole PNG file of sane size, else None."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    end = b"IEND\xaeB`\x82"
    if not content.startswith(head) or not content.endswith(end):
        return None
    width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
    return (width, height) if 0 < width <= SIDE and 0 < height <= SIDE else None


def _compared(found: Collection, metrics: Sequence[str], **options: Any) -> Table:
    """The comparison; where no validation score chooses among settings, a row per config."""
    try:
        return compare.table(found, metrics, **options)
    except InputError as error:
        if error.code != "no_choice":
            raise
        return compare.table(found, metrics, by=("config",), **options)


def _curves(table: Table, found: Collection) -> Iterator[Drawing]:
    """The training curves of each column, by the settings of the table."""
    results = {one.name: one.results for one in found.experiments}
    percent = 1
    label = tables.name(table.selector)
    if tables.is_share(table.selector):
        percent = 100
        label += " (%)"

    def curves(column: str, block: str) -> dict[str, np.ndarray]:
        own = {}
        for row, runs in table.runs[table.runs["column"] == column].groupby("row", sort=False):
            pairs = zip(runs["experiment"], runs["seed"])
            several = dict(enumerate(results[experiment][seed] for experiment, seed in pairs))
            own[str(row)] = percent * charts.history(several, block, table.selector)
        return own

    def figure(column: str, panels: dict[str, dict[str, np.ndarray]]) -> bytes:
        return encode(charts.curves_figure(panels, label, column, table.rows))

    for column in table.columns:
        every = {"validation": curves(column, "val"), "test": curves(column, "test")}
        # On your own graph there may be neither validation nor test nodes.
        panels = {panel: own for panel, own in every.items() if _drawn(own)}
        rows = set().union(*map(_drawn, panels.values()))
        panels = {
            panel: {row: values for row, values in own.items() if row in rows}
            for panel, own in panels.items()
        }
        if panels:
            yield f"Training curves on {column}", partial(figure, column, panels)


def _drawn(curves: Mapping[str, np.ndarray]) -> set[str]:
    """The rows whose curve has a point."""
    return {row for row, values in curves.items() if np.isfinite(values).any()}


def _files(experiments: Sequence[Experiment], *patterns: str) -> Iterator[Drawing]:
    """Pictures of the first seed of each experiment that has any, pattern by pattern."""
    for pattern, experiment in itertools.product(patterns, experiments):
        for seed in sorted(experiment.results):
            folder = experiment.path / str(seed) / "figures"
            # Path.glob would skip a folder without permission.
            found = os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else ()
            files = sorted(fnmatch.filter(found, f"{pattern}.png"))
            for file in files:
                what = file.removesuffix(".png").removesuffix("-selected").replace("_gnn", " GNN")
                result = experiment.results[seed]
                of = method_name(result["method"], result["backbone"])
                caption = f"{of} ({experiment.name}, seed {seed}): {what.replace('_', ' ')}"
                yield caption, partial(_content, folder / file)
            if files:
                break


def _content(file: Path) -> bytes:
    """The content of a PNG file; empty for a link and a changed file."""
    if file.is_symlink() or not file.is_file():
        return b""
    with atomic.opened(file) as picture:
        content = picture.read(LARGEST + 1)
    if len(content) <= LARGEST and checksums.is_edited(file):
        tell_changed(str(file))
        return b""
    return content


def of_data(summary: Mapping[str, Any]) -> str:
    """The page of a task that ``data.describe.describe`` returns."""
    counts = summary["labels"].values()
    sides = label_columns(summary)
    return html.fill(
        Path(__file__).with_name("data.html"),
        title=f"Data of {summary['name']}",
        sides=sides,
        largest={side: max(1, *(of[side] for of in counts)) for side in sides},
        facts=[*next(iter(summary["graphs"].values()))],
        labels=summary["labels"],
        graphs=summary["graphs"],
        splits=summary["splits"],
        notes=summary["notes"],
        warnings=summary["warnings"],
    )

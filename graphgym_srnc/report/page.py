"""Results as one HTML page that needs nothing beside it: tables with their tests, charts, warnings, settings, and how to do it again.

Results may be a stranger's, so jinja2 escapes their text, a picture is taken only where it is a PNG file of sane size, and no link is
followed. The template ``page.html`` holds the prose that is the same on every page.
"""
from __future__ import annotations

import base64
import json
import os
import shlex
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import jinja2
import yaml
from matplotlib.figure import Figure

from graphgym_srnc import store
from graphgym_srnc.errors import InputError
from graphgym_srnc.figures import charts, shift
from graphgym_srnc.report import compare, overview, statistics
from graphgym_srnc.report import render as prints
from graphgym_srnc.report.paper import TABLES, data_name
from graphgym_srnc.report.table import verdicts
from graphgym_srnc.text import plain

MOST = 40
"""Pictures on a page."""

OF_A_KIND = 12
"""Pictures of one kind, such as confusion matrices."""

ROOM = 5_500_000
"""Bytes of all pictures; the page holds them as text of 4/3 that size."""

LARGEST = 1_500_000
"""Bytes of one picture."""

SIDE = 8192
"""Pixels of the longer side of a picture, since a small file may unpack to a huge one."""

CONFIGS = 100
"""Experiments whose whole config is on the page."""

TOLD = 5
"""Different warnings of an experiment that are told."""

MEANING = {
    "micro_f1": "share of test nodes that get their right class, also called accuracy; “unknown” is right for a node of an unseen class.",
    "macro_recall": "share of right answers in each class, averaged over classes, so that a small class counts as much as a large one. The"
                    " paper calls it Macro-F1.",
    "macro_f1": "F1 of each class (the harmonic mean of its recall and precision), averaged over classes.",
    "unknown_recall": "share of the nodes of unseen classes that are called unknown.",
    "unknown_precision": "share of the nodes called unknown that are of an unseen class.",
    "unknown_auroc": "chance that a node of an unseen class looks less sure than one of a known class, whatever the threshold; 50 % is"
                     " guessing.",
    "unknown_aupr": "average precision at finding nodes of unseen classes, over all thresholds.",
    "unknown_fpr95": "share of the nodes of unseen classes that pass for known where 95 % of the known nodes pass; less is better.",
    "seconds": "wall-clock time of a run; less is better.",
    "peak_memory_mib": "largest memory of a run; less is better.",
    "params": "number of trainable weights; less is better.",
}
"""What scores mean, to somebody who has not met them."""

DEFAULT = ("micro_f1", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc")
"""Scores to compare, where there are such."""

SELECTION = {
    "target_val": "the one with the best Micro-F1 on labelled validation nodes of the target",
    "source_val": "the one with the best Micro-F1 on held-out labelled nodes of the source",
    "target_modularity": "the one whose predicted classes have the best modularity on the target, which needs no label",
    "last": "the last one",
}


class Box(NamedTuple):
    """What stands in a cell of a table: a text, a small one below it, and a mark: ``best``, ``tied``, ``better`` or ``worse``."""

    text: str
    small: str = ""
    mark: str = ""


class Grid(NamedTuple):
    """A table; the first box of a row is its head."""

    title: str
    head: list[str]
    rows: list[list[Box]]


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


@dataclass
class Experiment:
    """What lies in the directory of an experiment.

    Args:
        name: its path below the directory asked for.
        path: where it is.
        results: the records of its finished runs by seed.
        failures: by directory of a run without a readable result, why that is so.
        times: when each result was written, in seconds since 1970.
    """

    name: str
    path: Path
    results: dict[int, store.Result] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    @property
    def first(self) -> store.Result:
        return self.results[min(self.results)]

    @property
    def settings(self) -> dict[str, Any]:
        """Its config without places and seeds of training."""
        return _settled(self.first["config"])


class Album:
    """Takes pictures as long as the page has room for them."""

    def __init__(self) -> None:
        self.left, self.room = MOST, ROOM

    def gallery(self, drawings: Iterable[tuple[str, Callable[[], bytes | None]]]) -> Gallery:
        """The first pictures of a kind; ``drawings`` are captions with functions, which are called only where there is room."""
        pictures, left_out = [], 0
        for caption, draw in drawings:
            content = draw() if self.left and len(pictures) < OF_A_KIND else None
            size = png_size(content) if content and len(content) <= min(self.room, LARGEST) else None
            if content is None or size is None:
                left_out += 1
                continue
            self.left, self.room = self.left - 1, self.room - len(content)
            pictures.append(Picture(plain(caption), base64.b64encode(content).decode(), *size))
        return Gallery(pictures, left_out)


def render(folders: Sequence[str | os.PathLike], metrics: Sequence[str] = (), against: str | None = None, title: str = "",
           paper: str | None = None, about: Mapping[str, str] | None = None, every: Sequence[Experiment] | None = None) -> str:
    """The page of all finished runs in and below some directories.

    Args:
        folders: experiments, folders of them, or folders of such folders.
        metrics: scores to compare; default: those of ``DEFAULT`` that there are.
        against: the row that the others are tested against; default: the one with the best mean rank.
        title: of the page; default: the names of the folders.
        paper: one of ``paper.TABLES`` to put beside ours, or ``none``; default: the one that most runs stand beside.
        about: a sentence on each method and shift, by name.
        every: what :func:`read` gives of the directories, if that is there already.

    Raises:
        InputError: a directory is not there or holds no result; an unknown metric, row or table; no pairs with the chosen row.
    """
    about, found = about or {}, compare.collect(folders)
    folders = [Path(os.path.abspath(folder)) for folder in folders]
    published = None if paper == "none" else paper or fitting(found.runs)
    there = set().union(*(run.scores["test"] for run in found.runs))
    table = compare.table(found.runs, metrics or [metric for metric in DEFAULT if metric in there], paper=published, intervals=True)
    tested = _tested(found.runs, table, against, published)
    every = read(folders) if every is None else every
    experiments = [one for one in every if one.results]
    if not experiments:
        raise InputError("DIR", ", ".join(map(str, folders)), "results that this program wrote")
    names = [plain(folder.name or folder) for folder in folders]
    again = ["graphgym-srnc", "report", *names, "--metric", *table.metrics, *(["--paper", paper] if paper else []),
             *(["--against", against] if against else [])]
    used = {"Methods": {one.first["method"] for one in experiments},
            "Kinds of shift": {one.first["config"]["dataset"]["format"] for one in experiments}}
    metric = next((metric for metric in table.metrics if metric not in compare.COSTS), "micro_f1")
    page = _template().render(
        _galleries(table, experiments, metric), drawn=prints.name(metric),
        title=plain(title or f"Node classification under shift: {', '.join(names)}"), summary=_summary(found, experiments),
        table=table, first=prints.title(table, table.metrics[0]), names=[prints.name(metric) for metric in table.metrics],
        findings=_findings(table), data=_data(experiments),
        told={head: [(name, plain(about[name])) for name in sorted(mine) if name in about] for head, mine in used.items()},
        selections=sorted({SELECTION.get(result["selection"], plain(result["selection"]))
                           for one in experiments for result in one.results.values()}),
        scores=[(prints.name(metric), MEANING.get(metric, "")) for metric in _explained(table, experiments)],
        means=[_means(table, metric) for metric in table.metrics], notes=prints.notes(replace(table, settings={}), "Bold", "underlined"),
        chosen=_chosen(table), tested=tested, picked=against is None, test=statistics.TESTS[table.test],
        tests=[_tests(tested, metric) for metric in table.metrics] if tested else [],
        paper=_paper(table), published=TABLES.get(published), cautions=_cautions(found.runs, published), every=_every(experiments),
        warnings=_warnings(experiments), verdicts=_verdicts(experiments),
        failures=_failures(every), repeated=found.repeated, settings=_settings(experiments),
        configs=[(one.name, yaml_of(one), _command(one)) for one in experiments[:CONFIGS]], unshown=len(experiments[CONFIGS:]),
        provenance=_provenance(experiments), again=shlex.join(again), most=MOST, of_a_kind=OF_A_KIND)
    return page.encode("utf-8", "replace").decode()


def fitting(runs: Sequence[compare.Run]) -> str | None:
    """The table of the paper that most runs stand beside, if any do."""
    fits = {name: sum(set(table.metrics) <= run.scores["test"].keys() and None not in (table.row_of(run.facts), table.column_of(run.facts))
                      for run in runs) for name, table in TABLES.items()}
    best = max(fits, key=fits.__getitem__)
    return best if fits[best] else None


def read(folders: Iterable[str | os.PathLike]) -> list[Experiment]:
    """The experiments in and below some directories, also those without a finished run; links are not followed."""
    found: dict[Path, Experiment] = {}
    folders, seen = [Path(os.path.abspath(folder)) for folder in folders], set()
    for folder in folders:
        for place, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if not name.startswith("."))
            run = Path(place)
            if run in seen or not {"run.json", "result.json"} & {*files}:
                continue
            seen.add(run)
            name = plain(os.path.relpath(run.parent, folder.parent if len(folders) > 1 or run.parent == folder else folder))
            one = found.setdefault(run.parent, Experiment(name, run.parent))
            result = _record(run)
            if result is None:
                one.failures[plain(run.name)] = _failure(run)
            else:
                one.results[result["seed"]] = result
                one.times.append((run / "result.json").stat().st_mtime)
    return _renamed(sorted(found.values(), key=lambda one: one.name))


def png_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a whole PNG file of sane size, else None."""
    if not content.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") or not content.endswith(b"IEND\xaeB`\x82"):
        return None
    width, height = (int.from_bytes(content[place:place + 4], "big") for place in (16, 20))
    return (width, height) if 0 < width <= SIDE and 0 < height <= SIDE else None


def yaml_of(one: Experiment) -> str:
    """The config of an experiment, as ``graphgym-srnc run --cfg`` reads it."""
    return yaml.safe_dump(one.settings, default_flow_style=None, sort_keys=False, width=110)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def _tested(runs: Sequence[compare.Run], table: compare.Table, against: str | None, published: str | None) -> compare.Table | None:
    """The same comparison tested against a row; if none is named, against the one with the best mean rank, if rows have ranks."""
    if against is None:
        ranking = next(iter(table.rankings.values()), None)
        if ranking is None or ranking.blocks < 2:
            return None
        against = min(ranking.ranks, key=ranking.ranks.__getitem__)
    return compare.table(runs, table.metrics, against=against, paper=published)


def _renamed(experiments: list[Experiment]) -> list[Experiment]:
    """With a number where two have one name."""
    seen: dict[str, int] = {}
    for one in experiments:
        seen[one.name] = seen.get(one.name, 0) + 1
        one.name += f" ({seen[one.name]})" * (seen[one.name] > 1)
    return experiments


def _record(run: Path) -> store.Result | None:
    """The record of a run if it is no link and all that the page shows of it is as it must be."""
    file = run / "result.json"
    result = store.read_result(run) if file.is_file() and not file.is_symlink() else None
    if result is None:
        return None
    result = {"info": {}, "selection": "not told", "versions": {}} | result
    try:
        return result | {key: plain(result[key]) for key in compare.NAMED} if _is_sound(result) else None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _is_sound(result: store.Result) -> bool:
    # Text that is no Unicode raises here instead of in a figure.
    json.dumps({key: value for key, value in result.items() if key != "history"}, ensure_ascii=False).encode()
    parts = [result["val"], result["test"], *(episode[part] for episode in result["history"] for part in ("losses", *store.SPLITS))]
    numbers = [result["seconds"], *(episode["seconds"] for episode in result["history"]), *(v for part in parts for v in part.values())]
    kinds = ((result["warnings"], list), (result["info"], dict), (result["versions"], dict), (result["selection"], str),
             (result["config"]["dataset"]["format"], str), (result["selected"], int), (result["seed"], int))
    return (all(isinstance(value, kind) for value, kind in kinds) and all(isinstance(value, (int, float)) for value in numbers)
            and 0 <= result["selected"] < len(result["history"]) and _is_verdict(result.get("verdict", {})))


def _is_verdict(verdict: Any) -> bool:
    return isinstance(verdict, dict) and all(isinstance(text, str) for text in verdict.get("sentences", {}).values())


def _failure(run: Path) -> str:
    file = run / "error.txt"
    if (run / "result.json").exists():
        return "its result.json is not what this program writes"
    if file.is_symlink() or not file.is_file():
        return "no result yet: interrupted, or still running"
    with open(file, "rb") as story:
        story.seek(max(0, file.stat().st_size - 10_000))
        lines = story.read().decode(errors="replace").split("\n")
    return next((plain(line)[:300] for line in reversed(lines) if line.strip()), "failed and left no message")


def _summary(found: compare.Found, experiments: Sequence[Experiment]) -> list[str]:
    """What was run, in whole sentences."""
    results = [result for one in experiments for result in one.results.values()]
    methods, data, encoders = (sorted({result[key] for result in results}) for key in ("method", "task", "backbone"))
    times = [moment for one in experiments for moment in one.times]
    first, last = (datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M") for moment in (min(times), max(times)))
    minutes = sum(result["seconds"] for result in results) / 60
    return [
        f"Here are {_count(len(found.runs), 'finished run')} of {_count(len(experiments), 'experiment')}:"
        f" {_count(len(methods), 'method')} ({_listed(methods)}) on {_count(len(data), 'data set')} ({_listed(data)}), with"
        f" {_count(len(encoders), 'kind')} of network ({_listed(encoders)}).",
        "A run trains one method once. Its seed draws the initial weights and, unless the config fixes it, the split: which classes are"
        f" hidden and which nodes are labelled. There are {_seeds(result['seed'] for result in results)}; runs on one split are compared in"
        " pairs.",
        f"Results were written {f'from {first} to {last}' if first < last else f'on {first}'} (UTC).",
        f"All runs together took {minutes / 60:.1f} hours of computing." if minutes >= 90 else
        f"All runs together took {minutes:.1f} minutes of computing."]


def _findings(table: compare.Table) -> list[str]:
    """The best row of each column by the first metric, and which others are as good or cannot be told from it."""
    metric, told = table.metrics[0], []
    less = metric in compare.LESS
    for column in table.columns:
        cells = {row: table.cells[metric, row, column] for row in table.rows if (metric, row, column) in table.cells}
        best = next((row for row, cell in cells.items() if cell.best), None)
        if best is None:
            told += [f"{column}: {row} has {_score(metric, cell)} over {_count(cell.runs, 'run')}." for row, cell in cells.items()]
            continue
        text = f"{column}: {best} is best with {_score(metric, cells[best])} over {_count(cells[best].runs, 'run')}"
        oracles = [row for row, cell in cells.items() if (cell.mean < cells[best].mean if less else cell.mean > cells[best].mean)]
        few = [row for row, cell in cells.items() if row != best and row not in oracles and 2.0 ** (1 - cell.pairs) > table.alpha]
        tied = [row for row, cell in cells.items() if cell.tied and row not in few]
        text += f"; above it is the oracle, {_listed(oracles)}" if oracles else ""
        text += f"; not told apart from it: {_listed(tied)}" if tied else ""
        text += f"; too few runs in common to tell: {_listed(few)}" if few else ""
        told.append(f"{text}.")
    return told


def _data(experiments: Sequence[Experiment]) -> Grid:
    """What each task says of itself, where it is the same in all of its runs."""
    tasks: dict[str, list[store.Result]] = {}
    for one in experiments:
        tasks.setdefault(one.first["task"], []).extend(one.results.values())
    rows = []
    for task, results in sorted(tasks.items()):
        told: dict[str, set[str]] = {}
        for result in results:
            for key, value in store.flatten(result["info"]).items():
                told.setdefault(key, set()).add(_value(value))
        facts = [f"{key.replace('_', ' ')}: {values.pop() if len(values) == 1 else 'varies with the seed'}" for key, values in told.items()
                 if key != "split_seed" and values != {"0"} and values != {"none"}]
        splits = len({str(result["split"]) for result in results})
        rows.append([Box(task), Box(results[0]["config"]["dataset"]["format"]), Box(str(splits)), Box(str(len(results))),
                     Box(plain("; ".join(facts)))])
    return Grid("", ["data", "shift", "splits", "runs", "details"], rows)


def _explained(table: compare.Table, experiments: Sequence[Experiment]) -> list[str]:
    shown = {*table.metrics, *_metrics(experiments)}
    return [*(metric for metric in MEANING if metric in shown), *(metric for metric in table.metrics if metric not in MEANING)]


def _metrics(experiments: Sequence[Experiment]) -> list[str]:
    there = {metric for one in experiments for result in one.results.values() for metric in result["test"]}
    return [metric for metric in MEANING if metric in there]


def _means(table: compare.Table, metric: str) -> Grid:
    """Mean and spread with interval and number of runs, and the mean rank."""
    ranking = table.rankings.get(metric)
    rows = []
    for row in table.rows:
        boxes = [Box(row)]
        for column in table.columns:
            cell = table.cells.get((metric, row, column))
            boxes.append(Box(_score(metric, cell), _interval(metric, cell), "best" if cell.best else "tied" if cell.tied else "")
                         if cell else Box(prints.ABSENT))
        if ranking:
            boxes.append(Box(f"{ranking.ranks[row]:.1f}" if row in ranking.ranks else prints.ABSENT))
        if any((metric, row, column) in table.cells for column in table.columns):
            rows.append(boxes)
    return Grid(prints.title(table, metric), [prints.row_head(table), *table.columns, *["mean rank"] * bool(ranking)], rows)


def _score(metric: str, cell: compare.Cell) -> str:
    return f"{prints.figure(metric, cell.mean)} ± {prints.figure(metric, cell.std)}"


def _interval(metric: str, cell: compare.Cell) -> str:
    ends = f"{' to '.join(prints.figure(metric, end) for end in cell.interval)}, " if cell.interval and cell.runs > 1 else ""
    return f"{ends}n {cell.runs}"


def _chosen(table: compare.Table) -> Grid:
    """The setting of each cell for which there was a choice."""
    rows = [[Box(row), Box(column), Box(f"{setting.tried}" + (f" ({setting.fewer} with fewer runs left out)" if setting.fewer else "")),
             Box(prints.figure(table.metrics[0], setting.validation)), Box(str(setting))]
            for (row, column), setting in table.settings.items() if setting.tried > 1]
    return Grid("", [prints.row_head(table), "data", "settings tried", "validation", "chosen"], rows)


def _tests(table: compare.Table, metric: str) -> Grid:
    """Difference of each row to the chosen one, with p and how often it was the better one."""
    def box(one: compare.Comparison | None) -> Box:
        if one is None or one.pairs < 2:
            return Box(prints.ABSENT)
        better = (one.difference > 0) != (metric in compare.LESS)
        return Box(prints.figure(metric, one.difference, "+.1f"), f"p {one.holm:.2g}, better in {one.wins} of {one.pairs}",
                   ("better" if better else "worse") if one.holm <= table.alpha else "")

    columns = [*table.columns, *[compare.POOLED] * (len(table.columns) > 1)]
    found = {row: [table.comparisons.get((metric, row, column)) for column in columns] for row in table.rows}
    return Grid(f"{prints.title(table, metric)}: difference to {table.against}", [prints.row_head(table), *columns],
                [[Box(row), *map(box, those)] for row, those in found.items() if any(those)])


def _paper(table: compare.Table) -> list[Grid]:
    """Ours beside the paper's, by metric."""
    grids = []
    for metric in table.metrics:
        found = {place[1:]: cell for place, cell in table.cells.items() if place[0] == metric and cell.paper}
        columns = [column for column in table.columns if any(place[1] == column for place in found)]
        rows = []
        for row in table.rows:
            cells = [found.get((row, column)) for column in columns]
            if any(cells):
                rows.append([Box(row)] + [box for cell in cells for box in (
                    (Box(_score(metric, cell)), Box(" ± ".join(str(value) for value in cell.paper if value is not None)),
                     Box(f"{100 * cell.mean - cell.paper.mean:+.1f}")) if cell else (Box(prints.ABSENT),) * 3)])
        if rows:
            heads = [head for column in columns for head in (f"{column}, here", "paper", "difference")]
            grids.append(Grid(prints.title(table, metric), [prints.row_head(table), *heads], rows))
    return grids


def _cautions(runs: Sequence[compare.Run], published: str | None) -> list[str]:
    """What must be said of our data beside a table of the paper."""
    names = {data_name(run.facts) for run in runs}
    return [text for name, text in TABLES[published].cautions.items() if name in names] if published else []


def _galleries(table: compare.Table, experiments: Sequence[Experiment], metric: str) -> dict[str, Gallery]:
    """The pictures of each kind, those of all experiments together first."""
    drawn, album = list(overview.figures_of({one.name: one.results for one in experiments}, metric)), Album()
    return {"ranks": album.gallery(_rank_drawings(table)), "labels": album.gallery(_label_drawings(experiments)),
            "curves": album.gallery(_drawings(drawn, "curves")), "sensitivity": album.gallery(_drawings(drawn, "sensitivity")),
            "confusion": album.gallery(_files(experiments, "confusion-selected", "reliability")),
            "embeddings": album.gallery(_files(experiments, "episodes", "*-selected"))}


def _rank_drawings(table: compare.Table) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for metric, ranking in table.rankings.items():
        yield (f"{prints.name(metric)}: mean ranks over {_count(ranking.blocks, 'split')}",
               partial(_draw, charts.critical_difference_figure, ranking.ranks, ranking.difference, ranking.cliques))


def _label_drawings(experiments: Sequence[Experiment]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for caption, summary in overview.label_counts({one.name: one.results for one in experiments}).items():
        yield caption, partial(_draw, shift.figure, summary)


def _draw(make: Callable[..., Figure], *words: Any) -> bytes:
    return charts.png(make(*words))


def _drawings(drawn: Iterable[tuple[str, Figure]], kind: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for name, figure in drawn:
        if name.startswith(kind):
            axes = figure.axes[0]
            yield f"{figure.get_suptitle()}: {axes.get_ylabel()} by {axes.get_xlabel()}", partial(charts.png, figure)


def _files(experiments: Sequence[Experiment], *patterns: str) -> Iterator[tuple[str, Callable[[], bytes | None]]]:
    """Pictures that the first drawn seed of each experiment left, all experiments for the first pattern, then for the next."""
    for pattern in patterns:
        for one in experiments:
            for seed in sorted(one.results):
                folder = one.path / str(seed) / "figures"
                paths = [] if folder.is_symlink() else sorted(folder.glob(f"{pattern}.png"))
                paths = [path for path in paths if pattern != "*-selected" or not path.name.startswith("confusion")]
                for path in paths:
                    what = path.stem.removesuffix("-selected").replace("_gnn", " GNN").replace("_", " ")
                    yield f"{one.name}, seed {seed}: {what}", partial(_content, path)
                if paths:
                    break


def _content(path: Path) -> bytes | None:
    if path.is_symlink() or not path.is_file():
        return None
    with open(path, "rb") as file:
        return file.read(LARGEST + 1)


def _every(experiments: Sequence[Experiment]) -> Grid:
    """A row for each experiment, with all its scores."""
    metrics, rows = _metrics(experiments), []
    for one in experiments:
        results = list(one.results.values())
        boxes = [Box(one.name), Box(one.first["method"]), Box(one.first["backbone"]), Box(one.first["task"]),
                 Box(str(len(results)), _seeds(one.results))]
        for metric in metrics:
            mean, std = statistics.mean_std([result["test"][metric] for result in results if metric in result["test"]])
            boxes.append(Box(f"{100 * mean:.1f} ± {100 * std:.1f}" if mean == mean else prints.ABSENT))
        rows.append([*boxes, Box(f"{statistics.mean(result['seconds'] for result in results):.1f}")])
    return Grid("", ["experiment", "method", "encoder", "data", "runs", *map(prints.name, metrics), "s a run"], rows)


def _warnings(experiments: Sequence[Experiment]) -> Grid:
    rows = []
    for one in experiments:
        seeds: dict[str, list[int]] = {}
        for seed, result in sorted(one.results.items()):
            for warning in result["warnings"]:
                seeds.setdefault(plain(warning)[:300], []).append(seed)
        told = [f"{text} ({_seeds(those)})" for text, those in seeds.items()]
        more = [f"and {len(told) - TOLD} more"] if len(told) > TOLD else []
        warned = sum(bool(result["warnings"]) for result in one.results.values())
        if told:
            rows.append([Box(one.name), Box(f"{warned} of {len(one.results)}"), Box("; ".join(told[:TOLD] + more))])
    return Grid("", ["experiment", "runs", "warnings"], rows)


def _verdicts(experiments: Sequence[Experiment]) -> Grid:
    rows = [[Box(one.name), Box("; ".join(plain(sentence)[:400] for sentence in said))] for one in experiments
            if (said := verdicts(one.results))]
    return Grid("", ["experiment", "what its runs were found odd for"], rows)


def _failures(experiments: Sequence[Experiment]) -> Grid:
    rows = [[Box(one.name), Box(seed), Box(why)] for one in experiments for seed, why in one.failures.items()]
    return Grid("", ["experiment", "seed", "what happened"], rows)


def _settings(experiments: Sequence[Experiment]) -> Grid:
    """What tells experiments apart: keys that have two values among the experiments which have the key."""
    configs = [store.flatten(one.settings) for one in experiments]
    values: dict[str, set[str]] = {}
    for config in configs:
        for key, value in config.items():
            values.setdefault(key, set()).add(_value(value))
    rows = [[Box(one.name), Box("; ".join(f"{key} {_value(value)}" for key, value in config.items() if len(values[key]) > 1))]
            for one, config in zip(experiments, configs)]
    return Grid("", ["experiment", "settings"], rows)


def _settled(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    return {key: _settled(value, f"{prefix}{key}.") if isinstance(value, Mapping) else value for key, value in config.items()
            if f"{prefix}{key}" not in store.VOLATILE}


def _command(one: Experiment) -> str:
    """The command that repeats the runs of an experiment with its config in a file of its name."""
    name, first = plain(one.path.name), min(one.results)
    words = ["graphgym-srnc", "run", "--cfg", f"{name}.yaml", "--name", name, "--repeat", str(max(one.results) - first + 1)]
    return shlex.join([*words, *(["seed", str(first)] if first else [])])


def _provenance(experiments: Sequence[Experiment]) -> Grid:
    """What all runs say of their environment."""
    told: dict[str, set[str]] = {}
    for one in experiments:
        for result in one.results.values():
            facts = {**result["versions"], "commit of graphgym-srnc": result.get("commit"), "platform": result.get("platform"),
                     "threads": result.get("threads")}
            for key, value in facts.items():
                told.setdefault(plain(key), set()).add(_value(value))
    return Grid("", ["what", "value in all runs"], [[Box(key), Box("; ".join(sorted(values)))] for key, values in told.items()])


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return plain(", ".join(map(str, value))) or "none"
    return "none" if value is None or value == "" else plain(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _listed(items: Sequence[str], most: int = 8) -> str:
    shown = [*items[:most], *([f"{len(items) - most} more"] if len(items) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _seeds(seeds: Iterable[int]) -> str:
    """``seeds 0 to 9, 12`` of 0, 1, ..., 9 and 12."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    told = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
    return f"seed {told}" if told.isdecimal() else f"seeds {told}"

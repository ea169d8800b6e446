"""Runs of many experiments as one table: settings chosen on validation, spread, paired tests, ranks, the paper's numbers."""
from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Hashable, Iterable, Mapping, Sequence

from graphgym_srnc import store
from graphgym_srnc.errors import InputError
from graphgym_srnc.report import statistics
from graphgym_srnc.report.paper import TABLES, Published, Score, data_name
from graphgym_srnc.text import clean

COSTS = ("seconds", "peak_memory_mib", "params")
"""What a run costs; any split has them as metrics."""

LESS = frozenset({"unknown_fpr95", "loss", *COSTS})
"""Metrics of which less is better."""

ORACLE = "iid"
"""The method that sees the masked classes: shown beside the others, not ranked with them."""

ALL = "all"
POOLED = "all columns"
"""Stands for a column where the pairs of all of them are tested at once."""

NAMED = ("method", "backbone", "task")
"""Facts of a record that are no keys of its config."""

Pair = tuple[str, int]
"""Fingerprint of the split, and training seed."""


@dataclass(frozen=True)
class Run:
    """What a comparison reads of a result.

    Args:
        facts: its config with dotted keys and lists as tuples, and ``method``, ``backbone`` and ``task``.
        scores: by split, then by metric, as fractions; figures that are not finite are left out.
        pair: what another run must have equal to be compared with it.
        digest: of its config, without seeds and places.
        warned: whether it gave a warning.
    """

    facts: dict[str, Any]
    scores: dict[str, dict[str, float]]
    pair: Pair
    digest: str = ""
    warned: bool = False


@dataclass
class Found:
    """The runs in some directories, and what was passed over."""

    runs: list[Run] = field(default_factory=list)
    unreadable: list[Path] = field(default_factory=list)
    unfinished: int = 0
    repeated: int = 0

    def remarks(self) -> list[str]:
        """What a reader must know about it."""
        unreadable = [f"{len(self.unreadable)} unreadable result(s), the first is {clean(str(path))}" for path in self.unreadable[:1]]
        counted = ((self.unfinished, "unfinished run(s)"), (self.repeated, "run(s) of the same config, seed and split as another"))
        return [f"skipped {told}" for told in unreadable + [f"{count} {what}" for count, what in counted if count]]


@dataclass(frozen=True)
class Cell:
    """The runs of one setting of a row on a column, by one metric.

    Args:
        values: mean score on each split and seed.
        runs: how many scores there are.
        mean, std, median: over the runs; the deviation is the population's.
        interval: bootstrap interval of the mean, where it was asked for.
        paper: what the paper has here.
        best: whether it is the best of its column.
        pairs: how many splits and seeds it has in common with the best one.
        p: of the paired test on them, Holm-corrected over the rows of the column; NaN for the best itself and where pairs < 2.
        tied: whether that p is above alpha.
    """

    values: dict[Pair, float]
    runs: int
    mean: float
    std: float
    median: float
    interval: tuple[float, float] | None = None
    paper: Score | None = None
    best: bool = False
    pairs: int = 0
    p: float = math.nan
    tied: bool = False


@dataclass(frozen=True)
class Setting:
    """The setting chosen for a row on a column.

    Args:
        values: the keys by which the settings differ, and their values in this one.
        tried: how many settings there are.
        fewer: how many of them have fewer runs than the others, and so were not to choose from.
        validation: mean validation score of this one; NaN where nothing was to choose and there is none.
    """

    values: dict[str, Any]
    tried: int
    fewer: int
    validation: float

    def __str__(self) -> str:
        return ", ".join(f"{key}={_text(value)}" for key, value in self.values.items())


@dataclass(frozen=True)
class Comparison:
    """A row less the chosen one, on the splits that both have; ``holm`` is p corrected over the rows of the column."""

    pairs: int
    difference: float
    wins: int
    p: float
    holm: float = math.nan


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks (a split and seed of a column), p of Friedman's test over them, and Nemenyi's critical difference."""

    ranks: dict[str, float]
    blocks: int
    friedman: float
    difference: float
    cliques: list[list[str]]


@dataclass(frozen=True)
class Table:
    """Every number of a comparison.

    Args:
        metrics, split, alpha, test: as asked for.
        by: what tells the rows apart.
        rows, columns: labels in the order of print.
        cells: by metric, row and column; only those that have runs.
        settings: by row and column.
        rankings: by metric; only where two rows have a block in common.
        against: the chosen row.
        comparisons: by metric, row and column, or ``POOLED``.
        notes: what a reader must know.
    """

    metrics: tuple[str, ...]
    split: str
    alpha: float
    test: str
    by: tuple[str, ...]
    rows: list[str]
    columns: list[str]
    cells: dict[tuple[str, str, str], Cell]
    settings: dict[tuple[str, str], Setting]
    rankings: dict[str, Ranking]
    against: str | None
    comparisons: dict[tuple[str, str, str], Comparison]
    notes: list[str]


def collect(folders: Iterable[str | os.PathLike]) -> Found:
    """All finished runs in and below some directories; links in them are not followed.

    Raises:
        InputError: a directory is not there, or none holds a result.
    """
    found, seen, folders = Found(), set(), list(map(str, folders))
    for folder in folders:
        if not Path(folder).is_dir():
            raise InputError("DIR", folder, "a directory that is there")
        for place, below, files in os.walk(folder, onerror=lambda error: found.unreadable.append(Path(error.filename))):
            below[:] = sorted(name for name in below if not name.startswith("."))
            if "result.json" not in files:
                found.unfinished += "run.json" in files
                continue
            run = read(Path(os.path.abspath(place)))
            if run is None:
                found.unreadable.append(Path(place) / "result.json")
            elif (run.digest, run.pair) in seen:
                found.repeated += 1
            else:
                seen.add((run.digest, run.pair))
                found.runs.append(run)
    if not found.runs:
        raise InputError("DIR", ", ".join(folders), "; ".join(["directories of experiments with <seed>/result.json", *found.remarks()]))
    return found


def read(place: Path) -> Run | None:
    """The run in a directory; None where its record is a link, torn, or not what it says it is."""
    try:
        record = None if (place / "result.json").is_symlink() or not (place / "result.json").is_file() else store.read_result(place)
        if record is None:
            return None
        named = {key: clean(str(record[key])) for key in NAMED}
        facts = {key: _frozen(value) for key, value in store.flatten(record["config"]).items()} | named
        costs = {key: record.get(key) for key in COSTS}
        parts = {"train": record["history"][record["selected"]]["train"], "val": record["val"], "test": record["test"]}
        scores = {split: {clean(key): float(value) for key, value in (costs | part).items() if _is_score(value)}
                  for split, part in parts.items()}
        return Run(facts, scores, (str(record["split"]), int(record["seed"])), record["digest"], bool(record["warnings"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        return None


def table(runs: Sequence[Run], metrics: Sequence[str] = (), split: str = "test", by: Sequence[str] = (), columns: Sequence[str] = (),
          select: Sequence[str] = (ALL,), against: str | None = None, test: str = "wilcoxon", paper: str | None = None,
          alpha: float = 0.05, intervals: bool = False) -> Table:
    """Compare runs.

    A key is one of the config, or ``method``, ``backbone``, ``task``, or, with ``paper``, ``paper``: the row of the paper's table that
    the run stands beside. Keys of the data are never selected over unless ``select`` names them.

    Args:
        runs: at least one.
        metrics: any that some run has on that split, or one of ``COSTS``; default: the paper table's, else Micro-F1.
        split: ``test``, ``val`` or ``train``.
        by: keys of the rows; default: method, and backbone if it varies.
        columns: keys of the columns; default: the task, and what varies in the data of a task.
        select: keys over which the best setting of each row and column is chosen, by the mean validation score of the first metric that
            is no cost; ``all``: all that vary; none: runs of all settings are pooled.
        against: the row that the others are compared with.
        test: one of ``statistics.TESTS``.
        paper: one of ``paper.TABLES``, to put its numbers beside ours.
        alpha: level of the tests; intervals have a level of 1 - alpha.
        intervals: whether to bootstrap an interval for each mean.

    Raises:
        InputError: an unknown metric, split, key, row, test or table; no pairs with the chosen row; settings without validation scores.
    """
    published = _one("--paper", paper, TABLES) if paper else None
    _one("--split", split, dict.fromkeys(store.SPLITS))
    _one("--test", test, statistics.TESTS)
    if not 0 < alpha < 1:
        raise InputError("--alpha", alpha, "more than 0, less than 1")
    metrics = tuple(dict.fromkeys(metrics or (published.metrics if published else ("micro_f1",))))
    there = sorted(set().union(*(run.scores[split] for run in runs)))
    for metric in metrics:
        if metric not in there:
            raise InputError("--metric", metric, f"on {split}: {', '.join(there)}")
    plain = ("method", *["backbone"] * (len({run.facts["backbone"] for run in runs}) > 1))
    if published:
        runs = [replace(run, facts=run.facts | {"paper": _paper_row(run, published, plain)}) for run in runs]
    keys = _Keys(runs)
    by = tuple(by) or (("paper",) if published else plain)
    columns = tuple(columns) or tuple(key for key in ("task", *keys.within_a_task()) if key not in by)
    selected = [key for key in select if key != ALL]
    for option, given in (("--by", by), ("--columns", columns), ("--select", selected)):
        keys.check(option, given)
    searched = set(selected) | (keys.settings if ALL in select else set())

    groups = _groups(runs, by, columns)
    settings, chosen, pooled = {}, {}, set()
    selector = next((metric for metric in metrics if metric not in COSTS), "micro_f1")
    for place, mine in groups.items():
        settings[place], chosen[place] = _choose(mine, searched - set(by) - set(columns), selector, place)
        pooled |= _varying(chosen[place], keys.settings | keys.data)
    rows, names = _in_order(chosen, 0, published), _in_order(chosen, 1, published)
    runs_of = {row: [run for place, mine in chosen.items() if place[0] == row for run in mine] for row in rows}
    oracles = {row for row, mine in runs_of.items() if all(run.facts["method"] == ORACLE for run in mine)}
    ranked = [row for row in rows if row not in oracles]

    cells = {(metric, *place): cell for metric in metrics for place, mine in chosen.items()
             if (cell := _cell(mine, metric, split, 1 - alpha if intervals else None, published))}
    for metric, column in itertools.product(metrics, names):
        mine = {row: cells[metric, row, column] for row in ranked if (metric, row, column) in cells}
        cells |= {(metric, row, column): cell for row, cell in _marked(mine, metric in LESS, test, alpha).items()}
    out = Table(metrics, split, alpha, test, by, rows, names, cells, settings, {}, against, {}, [])
    out = replace(out, rankings={metric: ranking for metric in metrics if (ranking := _ranking(out, metric, ranked))},
                  comparisons=_comparisons(out, oracles) if against is not None else {})
    return replace(out, notes=_notes(out, runs_of, selector, oracles, pooled, published))


class _Keys:
    """The keys of some runs, and which of them may tell settings and data apart."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs, self.known = runs, set().union(*(run.facts for run in runs))
        formats = {str(run.facts.get("dataset.format")) for run in runs}
        free = {key for key in self.known if key not in (*NAMED, "paper") and not _is_seed(key)
                and not {key, key.split(".")[0]} & store.VOLATILE}
        self.data = {key for key in free if key in ("dataset.name", "dataset.format") or key.split(".")[0] in formats}
        self.settings = free - self.data

    def within_a_task(self) -> list[str]:
        """Keys of the data that vary among runs of one task, so that its name does not say all."""
        tasks: dict[str, list[Run]] = {}
        for run in self.runs:
            tasks.setdefault(run.facts["task"], []).append(run)
        return sorted(set().union(*(_varying(mine, self.data) for mine in tasks.values())))

    def check(self, option: str, given: Sequence[str]) -> None:
        for key in given:
            if key not in self.known:
                varying = sorted(_varying(self.runs, self.settings | self.data)) or sorted(self.settings | self.data)
                raise InputError(option, key, ", ".join([*NAMED, *varying]) + ", or another key of the config")


def _varying(runs: Sequence[Run], keys: Iterable[str]) -> set[str]:
    """Keys that have two values; a run of another method does not have a key at all, which is no value."""
    return {key for key in keys if len({run.facts[key] for run in runs if key in run.facts}) > 1}


def _is_seed(key: str) -> bool:
    return key == "seed" or key.endswith(".split_seed")


def _is_score(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _frozen(value: Any) -> Hashable:
    return tuple(map(_frozen, value)) if isinstance(value, list) else str(value) if isinstance(value, dict) else value


def _text(value: Any) -> str:
    return clean(str(list(value) if isinstance(value, tuple) else value))


def _one(option: str, name: str, allowed: Mapping[str, Any]) -> Any:
    if name not in allowed:
        raise InputError(option, name, ", ".join(allowed))
    return allowed[name]


def _paper_row(run: Run, published: Published, keys: Sequence[str]) -> str:
    """The row of the paper's table, or a name of its own by some keys."""
    known = any(wanted["method"] == run.facts["method"] for wanted in published.rows.values())
    return published.row_of(run.facts) or _label(keys, run) + " (beyond the paper)" * known


def _label(keys: Sequence[str], run: Run, brief: bool = False) -> str:
    """The values of some keys in one line, without those that the run does not have; ``brief``: without the shift in front of a task."""
    parts = []
    for key in keys:
        if key in run.facts:
            bare = key in (*NAMED, "paper", "train.mode", "gnn.layer_type", "dataset.name")
            shift = f"{run.facts.get('dataset.format')}/" if brief and key == "task" else ""
            parts.append(_text(run.facts[key]).removeprefix(shift) if bare else f"{key.rpartition('.')[2]}={_text(run.facts[key])}")
    return "/".join(parts) or "-"


def _groups(runs: Sequence[Run], by: Sequence[str], columns: Sequence[str]) -> dict[tuple[str, str], list[Run]]:
    """Runs by the labels of their row and column, in the order in which they were found."""
    def values(run: Run, keys: Sequence[str]) -> tuple:
        return tuple(run.facts.get(key) for key in keys)

    def labels(keys: Sequence[str]) -> dict[tuple, str]:
        first = {values(run, keys): run for run in reversed(runs)}
        for brief in (True, False):
            named = {value: _label(keys, run, brief) for value, run in first.items()}
            if len(set(named.values())) == len(named):
                return named
        return {value: f"{_label(keys, run)} ({number})" for number, (value, run) in enumerate(first.items(), 1)}

    row_labels, column_labels = labels(by), labels(columns)
    out: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        out.setdefault((row_labels[values(run, by)], column_labels[values(run, columns)]), []).append(run)
    return out


def _choose(runs: Sequence[Run], keys: Iterable[str], metric: str, place: tuple[str, str]) -> tuple[Setting, list[Run]]:
    """The setting with the best mean validation score, of those with the most runs; no test score is read."""
    varying = sorted(_varying(runs, keys))
    settings: dict[tuple, list[Run]] = {}
    for run in runs:
        settings.setdefault(tuple(run.facts.get(key) for key in varying), []).append(run)
    most = max(map(len, settings.values()))
    full = {values: mine for values, mine in settings.items() if len(mine) == most}
    scores = {values: statistics.mean([run.scores["val"].get(metric, math.nan) for run in mine]) for values, mine in full.items()}
    if len(full) > 1 and any(map(math.isnan, scores.values())):
        raise InputError("--select", ", ".join(varying), f"a row or a column for each of these keys (--by, --columns), or no keys, since"
                         f" {' on '.join(place)} has settings without validation scores ({metric}) to choose by")
    best = (min if metric in LESS else max)(scores, key=scores.__getitem__)
    return Setting(dict(zip(varying, best)), len(settings), len(settings) - len(full), scores[best]), full[best]


def _in_order(chosen: Mapping[tuple[str, str], list[Run]], part: int, published: Published | None) -> list[str]:
    """Labels of rows (part 0) or columns (1) as the paper has them, the others after them as they were found; the oracle first."""
    def rank(label: str) -> tuple[bool, bool, int]:
        run, name, there = first[label][0], None, []
        if published is not None:
            name = (published.column_of if part else published.row_of)(run.facts)
            there = list(published.columns if part else published.rows)
        return part == 1 or run.facts["method"] != ORACLE, name is None, there.index(name) if name else 0

    first = {place[part]: mine for place, mine in reversed(chosen.items())}
    return sorted(dict.fromkeys(place[part] for place in chosen), key=rank)


def _cell(runs: Sequence[Run], metric: str, split: str, confidence: float | None, published: Published | None) -> Cell | None:
    scores = [(run.pair, run.scores[split][metric]) for run in runs if metric in run.scores[split]]
    if not scores:
        return None
    values = [score for _, score in scores]
    pairs: dict[Pair, list[float]] = {}
    for pair, score in scores:
        pairs.setdefault(pair, []).append(score)
    paper = None
    if published and split == "test":
        beside = {(published.row_of(run.facts), published.column_of(run.facts)) for run in runs}
        paper = published.find(*beside.pop()).get(metric) if len(beside) == 1 else None
    interval = statistics.bootstrap_interval(values, confidence) if confidence else None
    return Cell({pair: statistics.mean(mine) for pair, mine in pairs.items()}, len(values), *statistics.mean_std(values), median(values),
                interval, paper)


def _marked(cells: Mapping[str, Cell], less: bool, test: str, alpha: float) -> dict[str, Cell]:
    """The cells of a column with the best one and those that are not told apart from it marked."""
    if len(cells) < 2:
        return dict(cells)
    best = (min if less else max)(cells, key=lambda row: cells[row].mean)
    gaps = {row: statistics.paired(cells[best].values, cell.values) for row, cell in cells.items() if row != best}
    p = statistics.holm([statistics.p_value(values, test) for values in gaps.values()])
    return {best: replace(cells[best], best=True)} | {
        row: replace(cells[row], pairs=len(values), p=value, tied=value > alpha) for (row, values), value in zip(gaps.items(), p)}


def _ranking(out: Table, metric: str, rows: Sequence[str]) -> Ranking | None:
    scores = {row: blocks for row in rows if (blocks := _blocks(out, metric, row))}
    common, blocks = statistics.common_blocks(scores)
    if len(common) < 2:
        return None
    scores = {row: scores[row] for row in common}
    ranks = statistics.mean_ranks(scores, blocks, metric in LESS)
    return Ranking(ranks, len(blocks), statistics.friedman(scores, blocks), *statistics.critical_difference(ranks, len(blocks), out.alpha))


def _blocks(out: Table, metric: str, row: str, columns: Sequence[str] = ()) -> dict[Hashable, float]:
    return {(column, pair): value for column in columns or out.columns if (metric, row, column) in out.cells
            for pair, value in out.cells[metric, row, column].values.items()}


def _comparisons(out: Table, oracles: set[str]) -> dict[tuple[str, str, str], Comparison]:
    """Each row but the oracle less the chosen one, in each column and over all of them."""
    if out.against not in out.rows:
        raise InputError("--against", out.against, " | ".join(out.rows))
    found = {}
    others = [row for row in out.rows if row != out.against and row not in oracles]
    places = [(column, [column]) for column in out.columns] + [(POOLED, out.columns)] * (len(out.columns) > 1)
    for metric, (name, columns) in itertools.product(out.metrics, places):
        ours = _blocks(out, metric, out.against, columns)
        tested = {}
        for row in others:
            values = statistics.paired(_blocks(out, metric, row, columns), ours)
            wins = sum(value < 0 if metric in LESS else value > 0 for value in values)
            tested[row] = Comparison(len(values), statistics.mean(values), wins, statistics.p_value(values, out.test))
        for (row, one), p in zip(tested.items(), statistics.holm([one.p for one in tested.values()])):
            found[metric, row, name] = replace(one, holm=p)
    if all(math.isnan(one.p) for one in found.values()):
        raise InputError("--against", out.against, "a row that shares 2 splits or more with another one, since only runs with equal split"
                         " and seed can be paired")
    return found


def _notes(out: Table, runs_of: Mapping[str, list[Run]], selector: str, oracles: set[str], pooled: set[str],
           published: Published | None) -> list[str]:
    notes = []
    pairs = [cell.pairs for (_, row, _), cell in out.cells.items() if not cell.best and row not in oracles and len(out.rows) > 1]
    if any(count < 2 for count in pairs):
        notes.append("Where a row has fewer than 2 splits and seeds in common with the best one there is no test, and no mark.")
    pairs += [one.pairs for one in out.comparisons.values()]
    if out.test == "wilcoxon" and any(2 <= count and 2.0 ** (1 - count) > out.alpha for count in pairs):
        needed = 1 + math.ceil(-math.log2(out.alpha))
        notes.append(f"Wilcoxon's p is at least 2^(1-n) for n pairs: with fewer than {needed} nothing can be told apart at {out.alpha:g}.")
    if out.against is not None:
        notes.append(f"Difference to {out.against}: mean over pairs, in brackets the two-sided p ({statistics.TESTS[out.test]}, Holm's"
                     " correction over the rows of a column), n pairs."
                     + " Pairs of one column share its data, so p over all columns is optimistic." * (len(out.columns) > 1))
    for metric, ranking in out.rankings.items():
        line = f"Rank by {metric}: mean over {ranking.blocks} splits of columns, which all {len(ranking.ranks)} rows with a rank have."
        if not math.isnan(ranking.friedman):
            line += f" Friedman's test: p = {ranking.friedman:.2g}."
        line += f" Nemenyi's critical difference: {ranking.difference:.2f}"
        best = min(ranking.ranks, key=ranking.ranks.__getitem__)
        near = [row for clique in ranking.cliques[:1] if best in clique for row in clique if row != best]
        told = f"not told apart from {best}: {', '.join(near)}" if near else f"{best} is told apart from all others"
        notes.append(line + f"; {told}.")
    if oracles:
        notes.append(f"{', '.join(sorted(oracles))}: the oracle, neither ranked nor marked.")
    if pooled:
        notes.append(f"Some cells pool runs that differ in {', '.join(sorted(pooled))}.")
    warned = {row: sum(run.warned for run in mine) for row, mine in runs_of.items()}
    notes += [f"{row}: {count} of {len(runs_of[row])} runs gave a warning, see result.json." for row, count in warned.items() if count]
    if published:
        notes.append(f"paper: {published.title}, in %, mean ± standard deviation.")
        names = {data_name(run.facts) for mine in runs_of.values() for run in mine}
        notes += [text for name, text in published.cautions.items() if name in names]
    if any(setting.tried > 1 for setting in out.settings.values()):
        notes.append(f"Settings are chosen for each row and column by mean {selector} on validation, among those with the most runs:")
    return notes

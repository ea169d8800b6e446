"""What the benchmarks share: cells that the grid runs, tests on common splits, scores as CSV."""

from __future__ import annotations

import argparse
import csv
import functools
import io
import json
import math
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.core.text import markdown as markdown_table
from graphgym_srnc.gym import load_config
from graphgym_srnc.gym.run import experiment
from graphgym_srnc.io import atomic
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.report import statistics
from graphgym_srnc.report.statistics import holm, mean, mean_std, p_value
from graphgym_srnc.sweep import execute, local, plan, worker
from graphgym_srnc.sweep.jobs import Limits

Results = dict[int, dict[str, Any]]
Table = dict[str, dict[str, Results]]
"""Results of each row, by block: a graph, a direction or a period."""


class Cell(NamedTuple):
    """One experiment.

    Args:
        folder: where it is stored below ``--out-dir``.
        name: its directory there.
        cfg: its config.
        changes: what it changes there.
        seeds: of its runs.
    """

    folder: str
    name: str
    cfg: str
    changes: dict[str, Any]
    seeds: Sequence[int]

    def config(self, args: argparse.Namespace) -> Any:
        """The whole config; the words of ``--set`` go last."""
        changes = {**self.changes, "seed": self.seeds[0], "num_threads": 1}
        cfg = load_config(
            self.cfg, [*(word for item in changes.items() for word in item), *args.set]
        )
        cfg.out_dir = str(args.out_dir / self.folder)
        return cfg

    def planned(self, args: argparse.Namespace) -> plan.Cell:
        """The cell of the grid."""
        cfg = self.config(args)
        place = experiment(cfg, self.name)
        return plan.Cell(cfg, place, self.seeds, place.plan(self.seeds, resume=True))

    def results(self, args: argparse.Namespace) -> Results:
        """Its finished runs of just this config."""
        return self.found(args, stale=False)[0]

    def found(self, args: argparse.Namespace, stale: bool = True) -> tuple[Results, bool]:
        """Its finished runs, with ``stale`` those of other configs too, and whether there are any
        of those."""
        place = experiment(self.config(args), self.name)
        found = {seed: result for seed, result in place.results().items() if seed in self.seeds}
        own = {seed: r for seed, r in found.items() if r["digest"] == place.digest}
        return found if stale else own, len(own) < len(found)


def run(cells: Sequence[Cell], args: argparse.Namespace) -> int:
    """Run what is missing, ``--jobs`` at a time; returns how many cells and runs failed."""
    planned, failed = [], 0
    for cell in cells:
        try:
            planned.append(cell.planned(args))
        except InputError as error:
            failed += 1
            print(f"{cell.name}: {error}", file=sys.stderr)
    missing = [cell for cell in planned if cell.missing]
    print(
        f"{len(cells)} experiments: {len(planned) - len(missing)} done, {len(missing)} to run",
        flush=True,
    )
    if not missing:
        return failed

    execute.prepare_data(missing)
    jobs = plan.jobs(missing, {"tensorboard": False})
    try:
        with GridProgress(len(jobs)) as progress:
            return failed + len(
                execute.execute(
                    jobs,
                    missing,
                    lambda jobs: local.run(jobs, worker.execute, Limits(), args.jobs),
                    progress,
                )
            )
    finally:
        execute.aggregate(missing, tensorboard=False)


def validation(results: Results) -> float:
    """Mean Micro-F1 on validation in %."""
    return 100 * mean([result["val"]["micro_f1"] for result in results.values()])


def scores(results: Results, metric: str) -> str:
    """A test score as mean ± standard deviation in %."""
    tests = [result["test"] for result in results.values()]
    values = [100 * test[metric] for test in tests if metric in test]
    return "{:.1f} ± {:.1f}".format(*mean_std(values)) if values else "-"


def peak_memory(results: Iterable[dict[str, Any]]) -> str:
    """Largest peak memory in MiB."""
    peaks = [result["peak_memory_mib"] for result in results if result["peak_memory_mib"]]
    return f"{max(peaks):.0f}" if peaks else "-"


def markdown(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A table, and an empty line."""
    return markdown_table([head, *(list(map(str, line)) for line in lines)]) + "\n"


def words_of(setting: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in setting.items())


def short(setting: dict[str, Any]) -> str:
    """A setting as part of a file name."""
    return "-".join(f"{key.rpartition('.')[2]}={value}" for key, value in setting.items())


def chosen(patterns: str, block: str, row: str) -> bool:
    return any(fnmatch(f"{block}:{row}", pattern.strip()) for pattern in patterns.split(","))


def by_split(results: Results, metric: str) -> dict[str, float]:
    """Test scores in %, the mean of all runs of a split."""
    found: dict[str, list[float]] = {}
    for result in results.values():
        found.setdefault(result["split"][:DIGITS], []).append(100 * result["test"][metric])
    return {split: mean(values) for split, values in found.items()}


def differences(ours: Results, others: Results, metric: str) -> list[float]:
    """Test score of ours less that of others in %, on each common split; splits that mask the same
    classes, where splits differ in that, count once, by their mean."""
    masked = {r["split"][:DIGITS]: masked_of(r) for r in ours.values()}
    units = {split: text or split for split, text in masked.items()}
    several = len(set(masked.values())) > 1
    return statistics.paired(
        by_split(ours, metric), by_split(others, metric), units if several else None
    )


def masked_of(result: dict[str, Any]) -> str:
    """The masked classes of a run as text, e.g. ``0+3+5``."""
    return "+".join(map(str, result["info"].get("unseen", ())))


RIVALS = (
    "a2gnn",
    "adalign",
    "cmd",
    "coral",
    "dann",
    "doc",
    "energy",
    "g2pxy",
    "gnnsafe",
    "grade",
    "grasp",
    "mmd",
    "nodesafe",
    "odin",
    "openmax",
    "openwgl",
    "pairalign",
    "pgl",
    "srgnn",
    "strurw",
    "udagcn",
    "uaga",
)
"""Rows, up to their first hyphen, of methods that others have published."""

REPRODUCED = Path(__file__).parents[1] / "docs" / "results" / "data" / "reproduction.csv"
"""What ``reproduction.py`` found of them."""

UNPROVEN = (
    "‡: has not reproduced a number of its paper here, or was not put to the test"
    " ([reproduction.md](reproduction.md))."
)


@functools.cache
def reproduced() -> set[str]:
    """The rivals that have reproduced what is published of them."""
    if not REPRODUCED.exists():
        return set()
    with open(REPRODUCED, newline="", encoding="utf-8") as file:
        return {line["row"] for line in csv.DictReader(file) if line["reproduced"] != "no"}


def marked(row: str, name: str) -> str:
    """The name of a row in print; one that has to be shown to be what its paper has is marked."""
    first = row.partition("-")[0]
    return name + "‡" * (first in RIVALS and first not in reproduced())


def leading(table: Table, metric: str = "micro_f1") -> list[str]:
    """The rows, the best mean over all blocks first; the oracle before them, and after them rows
    that lack a block."""
    blocks = set().union(*table.values()) if table else set()

    def place(row: str) -> tuple[bool, bool, float]:
        means = [
            mean(result["test"][metric] for result in table[row][block].values())
            for block in blocks & set(table[row])
        ]
        return row != "iid", len(means) < len(blocks), -mean(means)

    return sorted(table, key=place)


def leader(table: Table, metric: str = "micro_f1") -> str:
    """The row with the best mean but for the oracle."""
    return next((row for row in leading(table, metric) if row != "iid"), "")


def wins(differences: Sequence[float]) -> str:
    return f"{sum(value > 0 for value in differences)}/{len(differences)}"


def tests(differences: dict[str, list[float]], test: str = "wilcoxon") -> dict[str, list[str]]:
    """Two-sided p of each row, and p with Holm's correction over the rows."""
    p = [p_value(values, test) for values in differences.values()]
    return {
        row: [f"{raw:.2g}", f"{corrected:.2g}"]
        for row, raw, corrected in zip(differences, p, holm(p))
    }


def mean_ranks(table: Table, metric: str = "micro_f1") -> tuple[dict[str, float], str]:
    """Mean rank of each row (1 = best) over the blocks and splits that all have, and a line with
    Friedman's test of their equality."""
    cells = {
        row: {
            (block, split): value
            for block, results in blocks.items()
            for split, value in by_split(results, metric).items()
        }
        for row, blocks in table.items()
    }
    rows, common = statistics.common_blocks(cells)
    if len(rows) < 2 or not common:
        return {}, ""
    cells = {row: cells[row] for row in rows}
    line = f"Mean ranks of {len(rows)} rows over {len(common)} cells (block and split)."
    blocks = sorted({block for block, _ in common})
    if len(rows) >= 3:
        line += f" Friedman's test: p = {statistics.friedman(cells, common):.2g} over the cells"
        if len(blocks) > 1:
            means = {
                row: {
                    block: mean(values[cell] for cell in common if cell[0] == block)
                    for block in blocks
                }
                for row, values in cells.items()
            }
            p = statistics.friedman(means, blocks)
            line += f", {p:.2g} over the means of the {len(blocks)} blocks"
        line += "."
    return statistics.mean_ranks(cells, common), line


def pooled(table: Table, ours: str, names: Callable[[str], str], metric: str = "micro_f1") -> str:
    """Paired differences of one row less each other but the oracle, over all cells at once and over
    the means of the blocks."""
    cells, means, recall = {}, {}, {}
    for row, blocks in table.items():
        common = [block for block in blocks if block in table[ours]] * (row not in (ours, "iid"))
        pairs = [differences(table[ours][block], blocks[block], metric) for block in common]
        pairs = [values for values in pairs if values]
        if pairs:
            cells[row] = [value for values in pairs for value in values]
            means[row] = list(map(mean, pairs))
            recall[row] = mean(
                value
                for block in common
                for value in differences(table[ours][block], blocks[block], "macro_recall")
            )
    if not cells:
        return ""
    columns = [(values, tests(values)) for values in (cells, means)]
    lines = [
        [
            names(row),
            *(
                word
                for values, p in columns
                for word in (
                    len(values[row]),
                    f"{mean(values[row]):+.1f}",
                    wins(values[row]),
                    *p[row],
                )
            ),
            f"{recall[row]:+.1f}",
        ]
        for row in cells
    ]
    head = [
        f"{names(ours)} against",
        "cells",
        "difference",
        "wins",
        "p Wilcoxon",
        "Holm",
        "blocks",
        "mean of blocks",
        "wins",
        "p Wilcoxon",
        "Holm",
        "macro recall over cells",
    ]
    return markdown(head, lines) + (
        "Two-sided, paired by split; Holm over the rows of this table. Cells of one seed or of one"
        " block share graphs and labels, so the p over cells are optimistic; those over block means"
        " take each block as one observation, of which there are few: the least p possible with n"
        " of them is 2^(1-n).\n\n"
    )


def tuned(
    args: argparse.Namespace,
    rows: dict[str, str],
    blocks: dict[str, str],
    settings_of: dict[str, list[dict[str, Any]]],
    cell: Callable[[str, str, dict[str, Any]], Cell],
    common: Sequence[str],
) -> str:
    """Mean validation scores of the settings of each row; test scores are never read.

    Args:
        args: the command's arguments.
        rows, blocks: what is printed for each row and block.
        settings_of: the settings of each row that has some.
        cell: the experiment of a block, a row and a setting.
        common: rows with one setting for all blocks.
    """
    text = ""
    for row, settings in settings_of.items():
        columns = [block for block in blocks if chosen(args.only, block, row)]
        if not columns:
            continue
        found, marks = [], []
        for setting in settings:
            cells = [cell(block, row, setting) for block in columns]
            runs = [one.results(args) for one in cells]
            found.append(
                [
                    validation(results) if len(results) == len(one.seeds) else math.nan
                    for one, results in zip(cells, runs)
                ]
            )
            found[-1].append(math.fsum(found[-1]) / len(columns))
            configs = [flatten(load_config(one.cfg)) for one in cells]
            marks.append(["†" * (config.items() >= setting.items()) for config in configs] + [""])
        best = [
            None if any(map(math.isnan, column)) else column.index(max(column))
            for column in zip(*found)
        ]
        # One setting for all blocks is chosen by the mean, others by their own column.
        best = [
            index if (i == len(columns)) == (row in common) else None
            for i, index in enumerate(best)
        ]
        lines = []
        for i, setting in enumerate(settings):
            words = ["-" if math.isnan(score) else f"{score:.1f}" for score in found[i]]
            words = [f"**{word}**" if best[j] == i else word for j, word in enumerate(words)]
            lines.append([words_of(setting), *map("".join, zip(words, marks[i]))])
        text += f"### {rows[row]}" + ", one setting for all" * (row in common) + "\n\n"
        text += markdown(["setting", *(blocks[block] for block in columns), "mean"], lines)
    return text


DIGITS = 12
"""Digits of a fingerprint that tell splits apart."""

METRICS = (
    "micro_f1",
    "macro_f1",
    "macro_recall",
    "unknown_recall",
    "unknown_precision",
    "unknown_auroc",
    "unknown_aupr",
    "unknown_fpr95",
    "known_accuracy",
    "known_recall",
    "hs",
    "oscr",
)
KEY = ("table", "block", "row", "seed")
COLUMNS = (
    *KEY,
    "split",
    "masked",
    "episode",
    *METRICS,
    "val_micro_f1",
    "seconds",
    "peak_mib",
    "warnings",
    "config",
    "commit",
)
"""Of a file with the scores of every run."""


def read_csv(path: Path | None) -> dict[tuple[str, ...], dict[str, str]]:
    """Lines of a file of :func:`save_csv` by table, block, row and seed, if there is such a
    file."""
    if path is None or not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {tuple(line[key] for key in KEY): line for line in csv.DictReader(file)}


def known(path: Path | None, table: str) -> dict[tuple[str, str], Results]:
    """Runs that a file of :func:`save_csv` has of a table, by block and row, with as much of their
    records as a line keeps."""
    found: dict[tuple[str, str], Results] = {}
    for (name, block, row, seed), line in read_csv(path).items():
        if name == table:
            found.setdefault((block, row), {})[int(seed)] = {
                "split": line["split"],
                "selected": int(line["episode"]),
                "info": {"unseen": line["masked"].split("+") if line.get("masked") else []},
                "val": {"micro_f1": float(line["val_micro_f1"])},
                "test": {metric: float(line[metric]) for metric in METRICS if line.get(metric)},
                "seconds": float(line["seconds"]),
                "warnings": [""] * int(line["warnings"]),
                "digest": line["config"],
                "commit": line["commit"],
                "peak_memory_mib": float(line.get("peak_mib") or 0),
            }
    return found


def save_csv(path: Path, name: str, table: Table) -> None:
    """Write the scores of every run of a table, one a line; lines of other runs that are there
    already stay."""
    lines = read_csv(path)
    runs = (
        (block, row, seed, result)
        for row, blocks in table.items()
        for block, results in blocks.items()
        for seed, result in results.items()
    )
    for block, row, seed, r in runs:
        lines[name, block, row, str(seed)] = {
            "table": name,
            "block": block,
            "row": row,
            "seed": seed,
            "split": r["split"][:DIGITS],
            "masked": masked_of(r),
            "episode": r["selected"],
            **{key: f"{r['test'][key]:.4f}" for key in METRICS if key in r["test"]},
            "val_micro_f1": f"{r['val']['micro_f1']:.4f}",
            "seconds": f"{r['seconds']:.1f}",
            "peak_mib": f"{r['peak_memory_mib']:.0f}" if r["peak_memory_mib"] else "",
            "warnings": len(r["warnings"]),
            "config": r["digest"][:12],
            "commit": str(r["commit"])[:7],
        }
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines[key] for key in sorted(lines, key=lambda key: (*key[:3], int(key[3]))))
    atomic.write_text(path, out.getvalue())


def provenance(results: Sequence[dict[str, Any]]) -> str:
    """The commits and versions that made some results."""
    commits = sorted({str(result["commit"])[:7] for result in results})
    every = (result["versions"].items() for result in results if "versions" in result)
    versions = sorted({", ".join(f"{name} {v}" for name, v in items) for items in every})
    return "; ".join([f"Commit {', '.join(commits)}", *versions, "1 thread a run.\n"])


def parser(doc: str, out_option: str, out_dir: str) -> argparse.ArgumentParser:
    """The options that every benchmark of runs has; ``out_option`` names the folder of results."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        out_option,
        dest="out_dir",
        type=Path,
        default=Path(out_dir),
        metavar="DIR",
        help="folder of all runs (default: %(default)s)",
    )
    add(
        "--jobs",
        type=int,
        default=2,
        help="processes at a time, one thread each (default: %(default)s)",
    )
    add(
        "--set",
        nargs="*",
        default=[],
        metavar="KEY VALUE",
        help="overrides for every run; want another folder",
    )
    add("--no-run", action="store_true", help="only print what is there")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the text here too, the tables alone if FILE ends in .csv",
    )
    return parser


def table_parser(
    doc: str, commands: Sequence[str], rows: Iterable[str], out_dir: str
) -> argparse.ArgumentParser:
    """The options of the paper's tables."""
    options = parser(doc, "--out-dir", out_dir)
    add = options.add_argument
    add("command", choices=commands)
    add("--only", default="*", metavar="BLOCK:ROW,...", help=f"patterns; rows: {', '.join(rows)}")
    add(
        "--test",
        choices=list(rows),
        help="the row that is tested against the others (default: the one that leads)",
    )
    add(
        "--csv",
        type=Path,
        metavar="FILE",
        help="scores of every run: runs that only this file has"
        " are in the table too, all others are added to it",
    )
    return options


def serve(
    args: argparse.Namespace, cells: Sequence[Cell], text: Callable[[argparse.Namespace], str]
) -> int:
    """Run the cells, then print the text; the exit status."""
    failed = run(cells, args) if cells and not args.no_run else 0
    publish(text(args), args.out)
    return min(failed, 1)


def finished(
    file: Path,
    key: Sequence[str],
    cells: Iterable[tuple[Any, ...]],
    run: Callable[..., dict[str, Any]],
) -> list[dict[str, Any]]:
    """All runs of a file, a line each; those of some cells that it lacks are made first.

    Args:
        file: what is finished is added to it at once.
        key: names of what tells runs apart.
        cells: their values, what ``run`` is called with.
        run: makes one run.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    results = [json.loads(line) for line in lines]
    done = {tuple(result[name] for name in key) for result in results}
    file.parent.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        if cell not in done:
            results.append(run(*cell))
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(results[-1]) + "\n")
    return results


def publish(text: str, out: Path | None) -> None:
    """Print a text, and write it to a file if there is one: its tables alone if that is CSV."""
    print(text, end="")
    if out and out.suffix == ".csv":
        for number, lines in enumerate(tidy(text), start=1):
            file = out if number == 1 else out.with_name(f"{out.stem}-{number}.csv")
            write_csv(file, lines)
    elif out:
        out.write_text(text, encoding="utf-8")


def tidy(text: str) -> list[list[list[str]]]:
    """Tables of a Markdown text as lines of CSV, one table for each different header.

    A cell ``82.6 ± 3.4`` becomes two columns, ``X`` and ``X ±``; a cell ``-0.5 (5/16)`` becomes
    ``X`` and ``X wins``. The heading before a table becomes the column ``graph``, unless the table
    has one.
    """
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    heading, head = "", ()
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            head = ()
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not head:
            head = tuple(
                name + f" {head_count}" * (head_count > 1)
                for name, head_count in (
                    (name, cells[: i + 1].count(name)) for i, name in enumerate(cells)
                )
            )
        elif not all(re.fullmatch(":?-{3,}:?|-+:", cell) for cell in cells):
            tables.setdefault(head, []).append(["" if "graph" in head else heading, *cells])
    return [_split_columns(["graph", *head], lines) for head, lines in tables.items()]


def _split_columns(head: list[str], lines: list[list[str]]) -> list[list[str]]:
    """Header and lines with one figure per column, without columns that are empty."""
    out: list[list[str]] = [[] for _ in range(len(lines) + 1)]
    for i, name in enumerate(head):
        column = ["" if line[i] == "-" else line[i] for line in lines]
        parts = [PAIR.fullmatch(cell) for cell in column]
        if any(parts):
            sign = " ±" if any(part and part[2] for part in parts) else " wins"
            out[0] += [name, name + sign]
            for row, cell, part in zip(out[1:], column, parts):
                row += [part[1], part[2] or part[3]] if part else [cell, ""]
        elif any(column):
            for row, cell in zip(out, [name, *column]):
                row.append(cell)
    return out


PAIR = re.compile(r"([+-]?[\d.]+) (?:± ([\d.]+)|\((\d+/\d+)\))")
"""A mean with its spread, or a difference with its wins."""


def write_csv(path: Path, lines: Iterable[Sequence[Any]]) -> None:
    """Write lines of cells, the header first."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    atomic.write_text(path, out.getvalue())


def main(begin: Callable[[], int]) -> None:
    try:
        sys.exit(begin())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")

"""What the benchmarks share: cells that run through the public command line, tests on common splits, and tables in Markdown."""
from __future__ import annotations

import argparse
import csv
import io
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from graphgym_srnc.report import statistics
from graphgym_srnc.report.statistics import holm, mean, mean_std, p_value

Results = dict[int, dict[str, Any]]
Grid = dict[str, dict[str, Results]]
"""Results of each row, by block: a graph, a direction or a period."""

running: set[subprocess.Popen] = set()


class Cell(NamedTuple):
    """One experiment: its folder under ``--out-dir``, its name, its config, what it changes there, and its seeds."""

    folder: str
    name: str
    cfg: str
    changes: dict[str, Any]
    seeds: range

    def words(self, more: Sequence[str]) -> list[str]:
        """Overrides as words of the command line."""
        changes = self.changes | {"seed": self.seeds[0], "num_threads": 1}
        return [str(word) for item in changes.items() for word in item] + list(more)

    def experiment(self, args: argparse.Namespace) -> Any:
        """Where its results are, and what config they must have."""
        from graphgym_srnc import store
        from graphgym_srnc.gym import load_config, schema
        cfg = load_config(self.cfg, self.words(args.set))
        unused = set(schema()) - {"train", "dataset", cfg.train.mode, cfg.dataset.format}
        return store.Experiment(args.out_dir / self.folder, self.name, {key: value for key, value in cfg.items() if key not in unused})

    def results(self, args: argparse.Namespace) -> Results:
        """Its finished runs of just this config."""
        experiment = self.experiment(args)
        return {seed: r for seed, r in experiment.results().items() if r["digest"] == experiment.digest and seed in self.seeds}

    def found(self, args: argparse.Namespace) -> tuple[Results, bool]:
        """Its finished runs whatever their config, and whether any of them is of another config than this one."""
        from graphgym_srnc import store
        found = store.read_results(args.out_dir / self.folder / self.name)
        digests = {result["digest"] for result in found.values()}
        return {seed: r for seed, r in found.items() if seed in self.seeds}, bool(digests - {self.experiment(args).digest})


def run(cells: Sequence[Cell], args: argparse.Namespace) -> int:
    """Run what is missing, ``--jobs`` at a time, with a line for each command that ends; returns how many failed."""
    from graphgym_srnc.errors import InputError
    waiting, failed = [], 0
    for cell in cells:
        try:
            if cell.experiment(args).plan(cell.seeds, resume=True):
                waiting.append(cell)
        except InputError as error:
            failed += 1
            print(f"{cell.name}: {error}", file=sys.stderr)
    print(f"{len(cells)} experiments: {len(cells) - len(waiting) - failed} done, {len(waiting)} to run", flush=True)
    pool = ThreadPoolExecutor(args.jobs)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        futures = [pool.submit(execute, cell, args) for cell in waiting]
        for number, future in enumerate(as_completed(futures), 1):
            right, line = future.result()
            failed += not right
            print(f"[{number}/{len(futures)}] {line}", flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.terminate()
    return failed


def execute(cell: Cell, args: argparse.Namespace) -> tuple[bool, str]:
    """Run one experiment as a user does; whether it went well, and a line about it (no test score)."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "graphgym_srnc", "run", "--cfg", cell.cfg, "--name", cell.name, "--out-dir",
               str(args.out_dir / cell.folder), "--repeat", str(len(cell.seeds)), "--resume", "--no-figures", "--no-tensorboard"]
    process = subprocess.Popen(command + cell.words(args.set), env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    running.add(process)
    error = process.communicate()[1].strip()
    running.discard(process)
    line = f"{cell.name}: {time.perf_counter() - begin:.0f} s"
    if process.returncode:
        return False, f"{line}, FAILED ({process.returncode}): {' | '.join(error.splitlines()[-3:])}"
    results = cell.results(args)
    if len(results) < len(cell.seeds):
        return False, f"{line}, FAILED: the config was changed meanwhile"
    warned = sum(bool(result["warnings"]) for result in results.values())
    return True, f"{line}, {len(results)} runs, validation {validation(results):.1f}" + (f", {warned} with a warning" if warned else "")


def validation(results: Results) -> float:
    """Mean Micro-F1 on validation in %."""
    return 100 * mean([result["val"]["micro_f1"] for result in results.values()])


def scores(results: Results, metric: str) -> str:
    """A test score as mean ± standard deviation in %."""
    values = [100 * result["test"][metric] for result in results.values() if metric in result["test"]]
    return "{:.1f} ± {:.1f}".format(*mean_std(values)) if values else "-"


def peak_memory(results: Iterable[dict[str, Any]]) -> str:
    """Peak memory in MiB; the seeds of a cell share a process, so it is the largest."""
    return max((f"{result['peak_memory_mib']:.0f}" for result in results if result["peak_memory_mib"]), key=float, default="-")


def markdown(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *lines)) + "\n"


def told(setting: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in setting.items())


def short(setting: dict[str, Any]) -> str:
    """A setting as part of a file name."""
    return "-".join(f"{key.rpartition('.')[2]}={value}" for key, value in setting.items())


def chosen(patterns: str, block: str, row: str) -> bool:
    return any(fnmatch(f"{block}:{row}", pattern.strip()) for pattern in patterns.split(","))


def by_split(results: Results) -> dict[str, dict[str, Any]]:
    return {result["split"][:SHORT]: result for result in results.values()}


def differences(ours: Results, theirs: Results, metric: str) -> list[float]:
    """Test score of ours less theirs in %, on each common split."""
    mine, other = ({split: 100 * r["test"][metric] for split, r in by_split(results).items()} for results in (ours, theirs))
    return statistics.paired(mine, other)


def wins(differences: Sequence[float]) -> str:
    return f"{sum(value > 0 for value in differences)}/{len(differences)}"


def p_values(differences: Sequence[float]) -> tuple[float, float]:
    """Two-sided p of Wilcoxon's signed-rank test and of the paired t-test."""
    return p_value(differences, "wilcoxon"), p_value(differences, "t")


def mean_ranks(grid: Grid, metric: str = "micro_f1") -> tuple[dict[str, float], str]:
    """Mean rank of each row (1 = best) over the blocks and splits that all have, and a line with Friedman's test of their equality."""
    cells = {row: {(block, split): result["test"][metric] for block in blocks for split, result in by_split(blocks[block]).items()}
             for row, blocks in grid.items()}
    rows, common = statistics.common_blocks(cells)
    if len(rows) < 2 or not common:
        return {}, ""
    cells = {row: cells[row] for row in rows}
    line = f"Mean ranks of {len(rows)} rows over {len(common)} cells (block and split)."
    blocks = sorted({block for block, _ in common})
    if len(rows) >= 3:
        line += f" Friedman's test: p = {statistics.friedman(cells, common):.2g} over the cells"
        if len(blocks) > 1:
            means = {row: {block: mean([values[cell] for cell in common if cell[0] == block]) for block in blocks}
                     for row, values in cells.items()}
            line += f", {statistics.friedman(means, blocks):.2g} over the means of the {len(blocks)} blocks"
        line += "."
    return statistics.mean_ranks(cells, common), line


def pooled(grid: Grid, ours: str, names: Callable[[str], str], skip: Sequence[str] = ("iid",)) -> str:
    """Paired differences of one row less each other, over all cells at once and over the means of the blocks."""
    lines, tested = [], {}
    for row, blocks in grid.items():
        if row == ours or row in skip:
            continue
        pairs = {block: differences(grid[ours][block], results, "micro_f1") for block, results in blocks.items() if block in grid[ours]}
        pairs = {block: values for block, values in pairs.items() if values}
        if pairs:
            tested[row] = ([value for values in pairs.values() for value in values], [mean(values) for values in pairs.values()])
    if not tested:
        return ""
    p = {row: [p_values(values)[0] for values in both] for row, both in tested.items()}
    corrected = dict(zip(tested, zip(*(holm(column) for column in zip(*p.values())))))
    for row, both in tested.items():
        recall = [value for block, results in grid[row].items() if block in grid[ours]
                  for value in differences(grid[ours][block], results, "macro_recall")]
        line = [names(row)]
        for values, raw, holms in zip(both, p[row], corrected[row]):
            line += [len(values), f"{mean(values):+.1f}", wins(values), f"{raw:.2g}", f"{holms:.2g}"]
        lines.append([*line, f"{mean(recall):+.1f}"])
    head = [f"{names(ours)} against", "cells", "Micro-F1", "wins", "p Wilcoxon", "Holm", "blocks", "mean of blocks", "wins", "p Wilcoxon",
            "Holm", "macro recall over cells"]
    return markdown(head, lines) + (
        "Two-sided, paired by split; Holm over the rows of this table. Cells of one seed or of one block share graphs and labels, so the p"
        " over cells are optimistic; those over block means take each block as one observation, of which there are few: the least p"
        " possible with n of them is 2^(1-n).\n\n")


def tuned(args: argparse.Namespace, rows: dict[str, str], blocks: dict[str, str], tune: dict[str, list[dict[str, Any]]],
          cell: Callable[[str, str, dict[str, Any]], Cell], common: Sequence[str]) -> str:
    """Mean validation scores of the settings of each row; test scores are never read.

    Args:
        args: the command's arguments.
        rows, blocks: what is printed for each row and block.
        tune: the settings of each row that has some.
        cell: the experiment of a block, a row and a setting.
        common: rows with one setting for all blocks.
    """
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.store import flatten
    out = ""
    for row, settings in tune.items():
        here = [block for block in blocks if chosen(args.only, block, row)]
        if not here:
            continue
        found, marks = [], []
        for setting in settings:
            cells = [cell(block, row, setting) for block in here]
            runs = [(one, one.results(args)) for one in cells]
            found.append([validation(results) if len(results) == len(one.seeds) else math.nan for one, results in runs])
            found[-1].append(math.fsum(found[-1]) / len(here))
            configs = [flatten(load_config(one.cfg)) for one in cells]
            marks.append(["†" if all(config[key] == value for key, value in setting.items()) else "" for config in configs] + [""])
        best = [max(range(len(settings)), key=column.__getitem__) if not any(map(math.isnan, column)) else None for column in zip(*found)]
        if row in common:
            best[:-1] = [None] * len(here)
        else:
            best[-1] = None
        lines = [[told(setting), *("-" if math.isnan(score) else f"**{score:.1f}**{mark}" if best[j] == i else f"{score:.1f}{mark}"
                                   for j, (score, mark) in enumerate(zip(found[i], marks[i])))] for i, setting in enumerate(settings)]
        out += f"### {rows[row]}" + (", one setting for all" if row in common else "") + "\n\n"
        out += markdown(["setting", *(blocks[block] for block in here), "mean"], lines)
    return out


SHORT = 12
"""Digits of a fingerprint that tell splits apart."""

CSV = ("table", "block", "row", "seed", "split", "episode", "micro_f1", "macro_f1", "macro_recall", "unknown_recall", "unknown_precision",
       "unknown_auroc", "unknown_aupr", "unknown_fpr95", "val_micro_f1", "seconds", "warnings", "config", "commit")


def read_csv(path: Path | None) -> dict[tuple[str, ...], dict[str, str]]:
    """Lines of a file of :func:`save_csv` by table, block, row and seed; none where there is no file."""
    if path is None or not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {tuple(line[key] for key in CSV[:4]): line for line in csv.DictReader(file)}


def known(path: Path | None, table: str) -> dict[tuple[str, str], Results]:
    """Runs that a file of :func:`save_csv` has of a table, by block and row, with as much of their records as a line keeps."""
    found: dict[tuple[str, str], Results] = {}
    for (name, block, row, seed), line in read_csv(path).items():
        if name == table:
            found.setdefault((block, row), {})[int(seed)] = {
                "split": line["split"], "selected": int(line["episode"]), "val": {"micro_f1": float(line["val_micro_f1"])},
                "test": {key: float(line[key]) for key in CSV[6:14] if line[key]}, "seconds": float(line["seconds"]),
                "warnings": [""] * int(line["warnings"]), "digest": line["config"], "commit": line["commit"], "peak_memory_mib": None}
    return found


def save_csv(path: Path, table: str, grid: Grid) -> None:
    """Write the scores of every run of a table, one a line; lines of other runs that are there already stay."""
    from graphgym_srnc import atomic
    lines = read_csv(path)
    for row, blocks in grid.items():
        for block, results in blocks.items():
            for seed, r in results.items():
                line = {"table": table, "block": block, "row": row, "seed": seed, "split": r["split"][:SHORT], "episode": r["selected"],
                        **{key: f"{r['test'][key]:.4f}" for key in CSV[6:14] if key in r["test"]},
                        "val_micro_f1": f"{r['val']['micro_f1']:.4f}", "seconds": f"{r['seconds']:.1f}", "warnings": len(r["warnings"]),
                        "config": r["digest"][:12], "commit": str(r["commit"])[:7]}
                lines[table, block, row, str(seed)] = line
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines[key] for key in sorted(lines, key=lambda key: (*key[:3], int(key[3]))))
    atomic.write_text(path, out.getvalue())


def provenance(results: Sequence[dict[str, Any]]) -> str:
    commits = sorted({str(result["commit"])[:7] for result in results})
    versions = sorted({", ".join(f"{name} {v}" for name, v in result["versions"].items()) for result in results if "versions" in result})
    return f"Commit {', '.join(commits)}; {'; '.join(versions)}; 1 thread a run.\n"


def parser(doc: str, commands: Sequence[str], rows: Iterable[str], out_dir: str, test: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--only", default="*", metavar="BLOCK:ROW,...", help=f"patterns; rows: {', '.join(rows)}")
    parser.add_argument("--out-dir", type=Path, default=Path(out_dir), help="directory of all results (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, one thread each (default: %(default)s)")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY VALUE", help="overrides for every run; want another --out-dir")
    parser.add_argument("--test", default=test, choices=list(rows), help="the row that is tested against the others")
    parser.add_argument("--no-run", action="store_true", help="only print what is there")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the markdown here too")
    parser.add_argument("--csv", type=Path, metavar="FILE",
                        help="scores of every run: runs that only this file has are in the table too, all others are added to it")
    return parser


def serve(args: argparse.Namespace, cells: Sequence[Cell], text: Callable[[argparse.Namespace], str]) -> int:
    """Run the cells, then print the text; the exit status."""
    failed = run(cells, args) if cells and not args.no_run else 0
    written = text(args)
    print(written, end="")
    if args.out:
        args.out.write_text(written, encoding="utf-8")
    return min(failed, 1)


def main(begin: Callable[[], int]) -> None:
    try:
        sys.exit(begin())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")

"""The paper's open-set experiment on Cora, CiteSeer and PubMed, from tuning to the table, by the public command line alone.

    python benchmarks/open_set.py tune                        # 4 settings a method, split seeds 100 to 102, validation only
    python benchmarks/open_set.py report --only 'cora:*'      # split seeds 0 to 9, with the values in configs_gym/open_set/
    python benchmarks/open_set.py clusters                    # 7 against 16 clusters on Cora
    python benchmarks/open_set.py table --out open_set.md     # means, the paper's numbers, paired tests

Every command resumes: what is finished stays, whatever was interrupted runs again. GRAPHGYM_SRNC_DATA names the data folder.
"""
from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

GRAPHS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
TUNING_SEEDS, REPORTED_SEEDS = range(100, 103), range(10)

# Row: its name in print, its config <graph>-<config>.yaml, what it changes there.
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "iid": ("GCN (IID)", "iid", {}),
    "erm": ("GCN + threshold", "erm", {}),
    "pgl-gcn": ("PGL+GCN", "pgl", {}),
    "pgl-gat": ("PGL+GAT", "pgl-gat", {}),
    "pgl-sage": ("PGL+SAGE", "pgl-sage", {}),
    "pgl-sgc": ("PGL+SGC", "pgl-sgc", {}),
    "srnc-no-phi": ("SRNC w.o. Φ", "srnc", {"srnc.pseudo_labels": "classifier"}),
    "srnc-no-source": ("SRNC w.o. L_Φ,θ,S", "srnc", {"srnc.source_regularizer": False}),
    "srnc-ep1": ("SRNC Ep.1", "srnc", {"train.max_episodes": 1}),
    "srnc": ("SRNC", "srnc", {}),
    "srnc-plus": ("SRNC+", "srnc-plus", {}),
}

# As many settings for each. A row that is not here takes the values of its config as they are; PGL is tuned on GCN for all backbones.
TUNE: dict[str, list[dict[str, Any]]] = {
    "iid": [{"iid.steps": steps, "gnn.dropout": p} for steps in (100, 200) for p in (0.5, 0.8)],
    "erm": [{"erm.steps": steps, "gnn.dropout": p} for steps in (100, 200) for p in (0.5, 0.8)],
    "pgl-gcn": [{"pgl.enlarging": a, "pgl.confident": b} for a, b in ((0.2, 0.2), (0.2, 0.4), (0.2, 0.6), (0.1, 0.4))],
    "srnc-no-phi": [{"srnc.unknown_share": share} for share in (0.2, 0.3, 0.4, 0.5)],
    "srnc": [{"srnc.cluster_steps": t, "srnc.source_batch": b} for t, b in ((5, 32), (20, 32), (20, 80), (50, 32))],
    "srnc-plus": [{"dataset.normalize": scale, "srnc.drop_unsure": share} for scale in ("row", "l2") for share in (0.3, 0.5)],
}
COMMON = ("srnc-plus",)
"""Rows with one setting for all graphs."""

CLUSTERS, UNSEEN = (7, 16), (3, 1)

# Table 1 of the paper: Micro-F1 and what it calls Macro-F1, the mean recall of the classes.
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "cora": {"iid": (80.8, 79.8), "pgl-gcn": (72.1, 70.9), "pgl-gat": (69.2, 67.4), "pgl-sage": (73.3, 71.8), "pgl-sgc": (68.9, 66.9),
             "srnc-no-phi": (71.7, 70.2), "srnc-ep1": (76.0, 75.2), "srnc": (77.4, 75.9)},
    "citeseer": {"iid": (71.1, 68.3), "pgl-gcn": (67.0, 60.0), "pgl-gat": (65.4, 55.4), "pgl-sage": (67.2, 60.2), "pgl-sgc": (62.3, 56.4),
                 "srnc-no-phi": (65.5, 56.2), "srnc-ep1": (69.2, 60.4), "srnc": (70.7, 63.4)},
    "pubmed": {"iid": (79.3, 78.8), "pgl-gcn": (63.6, 57.8), "pgl-gat": (63.1, 57.3), "pgl-sage": (66.1, 60.4), "pgl-sgc": (63.3, 57.2),
               "srnc-no-phi": (65.8, 60.5), "srnc-ep1": (67.3, 68.0), "srnc": (69.1, 69.4)},
}
# Its table of parameter sensitivity: 7 instead of 16 clusters, by the number of unseen classes.
PAPER_CLUSTERS = {3: (1.62, 1.15), 1: (4.73, 3.79)}

METRICS = {"micro_f1": "Micro-F1", "macro_recall": "macro recall", "macro_f1": "Macro-F1", "unknown_recall": "unknown recall",
           "unknown_precision": "unknown precision"}

Results = dict[int, dict[str, Any]]

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


def tuning_cell(graph: str, row: str, setting: dict[str, Any]) -> Cell:
    words = "-".join(f"{key.rpartition('.')[2]}={value}" for key, value in setting.items())
    return Cell("tune", f"{graph}-{row}-{words}", f"open_set/{graph}-{ROWS[row][1]}", ROWS[row][2] | setting, TUNING_SEEDS)


def reported_cell(graph: str, row: str) -> Cell:
    return Cell("report", f"{graph}-{row}", f"open_set/{graph}-{ROWS[row][1]}", ROWS[row][2], REPORTED_SEEDS)


def clusters_cell(clusters: int, unseen: int) -> Cell:
    changes = {"srnc.num_clusters": clusters, "open_set.num_unseen": unseen}
    return Cell("clusters", f"cora-C{clusters}-unseen{unseen}", "open_set/cora-srnc", changes, REPORTED_SEEDS)


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


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def markdown(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *lines)) + "\n"


def tuned(args: argparse.Namespace) -> str:
    """Mean validation scores of the settings; test scores are never read."""
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.store import flatten
    out = (f"Micro-F1 on validation in %, mean over split seeds {TUNING_SEEDS[0]} to {TUNING_SEEDS[-1]}; "
           "**bold** = best, † = what the config says now.\n\n")
    for row, settings in TUNE.items():
        graphs = [graph for graph in GRAPHS if chosen(args.only, graph, row)]
        if not graphs:
            continue
        scores, marks = [], []
        for setting in settings:
            runs = {graph: tuning_cell(graph, row, setting).results(args) for graph in graphs}
            scores.append([validation(r) if len(r) == len(TUNING_SEEDS) else math.nan for r in runs.values()])
            scores[-1].append(math.fsum(scores[-1]) / len(graphs))
            configs = [flatten(load_config(tuning_cell(graph, row, {}).cfg)) for graph in graphs]
            marks.append(["†" if all(config[key] == value for key, value in setting.items()) else "" for config in configs] + [""])
        best = [max(range(len(settings)), key=column.__getitem__) if not any(map(math.isnan, column)) else None for column in zip(*scores)]
        if row in COMMON:
            best[:-1] = [None] * len(graphs)
        else:
            best[-1] = None
        lines = [[told(setting), *("-" if math.isnan(score) else f"**{score:.1f}**{mark}" if best[j] == i else f"{score:.1f}{mark}"
                                   for j, (score, mark) in enumerate(zip(scores[i], marks[i])))] for i, setting in enumerate(settings)]
        out += f"### {ROWS[row][0]}" + (", one setting for all graphs" if row in COMMON else "") + "\n\n"
        out += markdown(["setting", *map(GRAPHS.get, graphs), "mean"], lines)
    return out


def told(setting: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in setting.items())


def chosen(patterns: str, graph: str, row: str) -> bool:
    return any(fnmatch(f"{graph}:{row}", pattern.strip()) for pattern in patterns.split(","))


def by_split(results: Results) -> dict[str, dict[str, Any]]:
    return {result["split"]: result for result in results.values()}


def differences(ours: Results, theirs: Results, metric: str) -> list[float]:
    """Test score of ours less theirs in %, on each common split."""
    mine, other = by_split(ours), by_split(theirs)
    return [100 * (mine[split]["test"][metric] - other[split]["test"][metric]) for split in mine if split in other]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation."""
    m = mean(values)
    return m, math.sqrt(mean([(value - m) ** 2 for value in values]))


def p_values(differences: Sequence[float]) -> tuple[float, float]:
    """Two-sided p of Wilcoxon's signed-rank test and of the paired t-test."""
    from scipy.stats import ttest_1samp, wilcoxon
    if len(differences) < 2:
        return math.nan, math.nan
    if len(set(differences)) == 1:  # no spread at all, of which the t-test can say nothing
        return (1.0, 1.0) if differences[0] == 0 else (float(wilcoxon(differences).pvalue), 0.0)
    return float(wilcoxon(differences).pvalue), float(ttest_1samp(differences, 0).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction."""
    out, most = [math.nan] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        most = max(most, min(1.0, (len(p) - rank) * p[i]))
        out[i] = most
    return out


def graph_table(graph: str, args: argparse.Namespace) -> str:
    """The scores of all rows on one graph, and the tests of one of them against the others."""
    from graphgym_srnc import store
    rows: dict[str, Results] = {}
    notes = []
    for row in ROWS:
        if not chosen(args.only, graph, row):
            continue
        cell = reported_cell(graph, row)
        found = store.read_results(args.out_dir / cell.folder / cell.name)
        rows[row] = {seed: result for seed, result in found.items() if seed in cell.seeds}
        if found and cell.experiment(args).digest not in {result["digest"] for result in found.values()}:
            notes.append(f"{ROWS[row][0]}: of another config than {cell.cfg} is now.")
        warned = sum(bool(result["warnings"]) for result in rows[row].values())
        if warned:
            notes.append(f"{ROWS[row][0]}: {warned} of {len(rows[row])} runs gave a warning.")
    rows = {row: results for row, results in rows.items() if results}
    if not rows:
        return ""
    lines = []
    for row, results in rows.items():
        line = [ROWS[row][0], len(results)]
        for metric in METRICS:
            values = [100 * result["test"][metric] for result in results.values() if metric in result["test"]]
            line.append("{:.1f} ± {:.1f}".format(*spread(values)) if values else "-")
        drop = differences(rows.get("iid", {}), results, "micro_f1")
        paper = PAPER[graph].get(row)
        first = store.flatten(next(iter(results.values()))["config"])
        keys = TUNE.get(row, TUNE.get(ROWS[row][1], [{}]))[0]
        lines.append([*line, f"{mean(drop):.1f}" if drop and row != "iid" else "-", "{:.1f} / {:.1f}".format(*paper) if paper else "-",
                      f"{mean([result['seconds'] for result in results.values()]):.1f}",
                      ", ".join(f"{key.rpartition('.')[2]} {first[key]}" for key in [*keys, "gnn.dim_inner"])])
    head = ["method", "n", *METRICS.values(), "ΔF1", "paper Micro / Macro", "s a run", "setting"]
    out = f"## {GRAPHS[graph]}\n\n" + markdown(head, lines)
    out += paired(rows, args.test) if args.test in rows else ""
    return out + "".join(f"{note}\n" for note in notes) + "\n" * bool(notes)


def paired(rows: dict[str, Results], ours: str) -> str:
    """Tests of one row against all others but the oracle, which knows the masked classes."""
    others = {row: differences(rows[ours], results, "micro_f1") for row, results in rows.items() if row not in (ours, "iid")}
    others = {row: values for row, values in others.items() if values}
    if not others:
        return ""
    p = {row: p_values(values) for row, values in others.items()}
    corrected = dict(zip(others, zip(*(holm(column) for column in zip(*p.values())))))
    lines = [[ROWS[row][0], len(values), f"{mean(values):+.1f}", f"{sum(value > 0 for value in values)}/{len(values)}", f"{p[row][0]:.2g}",
              f"{corrected[row][0]:.2g}", f"{p[row][1]:.2g}", f"{corrected[row][1]:.2g}",
              f"{mean(differences(rows[ours], rows[row], 'macro_recall')):+.1f}"] for row, values in others.items()]
    head = [f"{ROWS[ours][0]} against", "n", "Micro-F1", "wins", "p Wilcoxon", "Holm", "p t-test", "Holm", "macro recall"]
    return markdown(head, lines)


def table(args: argparse.Namespace) -> str:
    """All graphs, and how the numbers came about."""
    from graphgym_srnc import store
    out = "".join(graph_table(graph, args) for graph in GRAPHS)
    results = [r for _, found in store.experiments(args.out_dir / "report") for r in found.values()]
    if not results:
        return "no results yet\n"
    budget = sorted({len(settings) for settings in TUNE.values()})
    commits = sorted({str(result["commit"]) for result in results})
    versions = sorted({", ".join(f"{name} {v}" for name, v in result["versions"].items()) for result in results})
    return out + (
        f"Test scores in %, mean ± population standard deviation over split seeds {REPORTED_SEEDS[0]} to {REPORTED_SEEDS[-1]}; macro recall"
        " is what the paper calls Macro-F1. ΔF1: Micro-F1 of GCN (IID) less the row's, on the same splits. Tests: two-sided, on the same"
        " splits, Holm's correction over the rows of a graph.\n\n"
        f"Tuning: {' or '.join(map(str, budget))} settings a method and graph, by Micro-F1 on validation alone, split seeds"
        f" {TUNING_SEEDS[0]} to {TUNING_SEEDS[-1]}; {', '.join(ROWS[row][0] for row in COMMON)}: one setting for all graphs;"
        " SRNC Ep.1 and w.o. L_Φ,θ,S: SRNC's values.\n\n"
        f"Commit {', '.join(commits)}; {'; '.join(versions)}; 1 thread a run.\n")


def clusters_table(args: argparse.Namespace) -> str:
    """Few clusters against many, beside the paper's gain."""
    runs = {(c, unseen): clusters_cell(c, unseen).results(args) for unseen in UNSEEN for c in CLUSTERS}
    lines = []
    for (c, unseen), results in runs.items():
        tests = [result["test"] for result in results.values()]
        used = [result["history"][result["selected"]]["losses"]["used_clusters"] for result in results.values()]
        lines.append([unseen, c, len(results), *("{:.1f} ± {:.1f}".format(*spread([100 * test[m] for test in tests])) for m in METRICS),
                      f"{mean(used):.1f}", f"{validation(results):.1f}"])
    out = markdown(["unseen", "clusters", "n", *METRICS.values(), "clusters in use", "validation"], lines)
    few, many = min(CLUSTERS), max(CLUSTERS)
    lines = []
    for unseen in UNSEEN:
        for metric, paper in zip(("micro_f1", "macro_recall"), PAPER_CLUSTERS[unseen]):
            values = differences(runs[few, unseen], runs[many, unseen], metric)
            error = spread(values)[1] / math.sqrt(len(values) - 1) if len(values) > 1 else math.nan
            wins = sum(value > 0 for value in values)
            lines.append([unseen, METRICS[metric], len(values), f"{mean(values):+.2f} ± {error:.2f}", f"{wins}/{len(values)}",
                          "{:.2g} / {:.2g}".format(*p_values(values)), f"{paper:+.2f}"])
    return out + f"{few} less {many} clusters on the same splits, ± standard error:\n\n" + markdown(
        ["unseen", "score", "n", "difference", "wins", "p Wilcoxon / t-test", "paper"], lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("tune", "report", "clusters", "table"))
    parser.add_argument("--only", default="*", metavar="GRAPH:ROW,...", help=f"patterns; rows: {', '.join(ROWS)}")
    parser.add_argument("--out-dir", type=Path, default=Path("results/open_set"), help="directory of all results (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, one thread each (default: %(default)s)")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY VALUE", help="overrides for every run; want another --out-dir")
    parser.add_argument("--test", default="srnc-plus", choices=list(ROWS), help="the row that is tested against the others")
    parser.add_argument("--no-run", action="store_true", help="only print what is there")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the markdown here too")
    args = parser.parse_args()
    pairs = [(graph, row) for graph in GRAPHS for row in ROWS if chosen(args.only, graph, row)]
    cells = {"tune": [tuning_cell(graph, row, setting) for graph, row in pairs for setting in TUNE.get(row, [])],
             "report": [reported_cell(graph, row) for graph, row in pairs],
             "clusters": [clusters_cell(c, unseen) for unseen in UNSEEN for c in CLUSTERS], "table": []}[args.command]
    failed = run(cells, args) if cells and not args.no_run else 0
    text = {"tune": tuned, "report": table, "clusters": clusters_table, "table": table}[args.command](args)
    print(text, end="")
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")

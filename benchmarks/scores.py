"""The stored scores of docs/results, and what is compared with what.

``docs/results/data/runs.csv`` has a line per run; ``tables.yaml`` names the comparisons. A
:class:`Shift` is one comparison, and :func:`shifts` returns all of them. :func:`summary_lines` has
one line per shift: SRNC+, the strongest other method, and their paired difference.
"""

from __future__ import annotations

import csv
import functools
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

import pandas as pd
import yaml

from graphgym_srnc.report import statistics
from graphgym_srnc.report.statistics import holm, interval, mean, p_value

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "results" / "data"
PLAN = yaml.safe_load((ROOT / "benchmarks" / "tables.yaml").read_text(encoding="utf-8"))

OURS, ORACLE, DEFAULTS = "srnc-plus", "iid", "srnc-plus-defaults"
KEY = ["table", "block", "row", "seed"]
SCORES = (
    "micro_f1 macro_f1 macro_recall unknown_recall unknown_precision unknown_auroc unknown_aupr"
    " unknown_fpr95 known_accuracy known_recall hs oscr"
).split()


def average(scores: pd.Series) -> float:
    """The exact mean of scores without the missing ones; NaN of none."""
    return mean(scores.dropna())


def in_words(cell: str) -> str:
    """``9/10`` as ``9 of 10``."""
    return re.sub(r"^(\d+)/(\d+)$", r"\1 of \2", cell)


class Gaps(list[float]):
    """Paired differences of SRNC+ minus another row in points, one per unit."""

    @property
    def mean(self) -> float:
        return mean(self)

    @property
    def p(self) -> float:
        return p_value(self)

    @property
    def ends(self) -> tuple[float, float]:
        """Student's 95 % interval of the mean."""
        return interval(self)

    @property
    def wins(self) -> str:
        return f"{sum(gap > 0 for gap in self)} of {len(self)}"


def read(name: str) -> list[dict[str, str]]:
    """The lines of a file of docs/results/data."""
    with open(DATA / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@functools.cache
def every_run() -> pd.DataFrame:
    return pd.read_csv(DATA / "runs.csv", dtype={"masked": str, "split": str}, encoding="utf-8")


@functools.cache
def stored(table: str) -> pd.DataFrame:
    """The runs of a table of runs.csv, scores in %, with the ``unit`` that tests count once.

    A unit is a split, or a set of masked classes in blocks whose splits differ in that.
    """
    runs = every_run()
    runs = runs[runs.table == table].copy()
    runs[SCORES] *= 100
    several = runs.groupby("block").masked.transform("nunique") > 1
    runs["unit"] = runs.masked.where(several, runs.split)
    return runs


@functools.cache
def reproduced() -> set[str]:
    """The rivals that have reproduced what is published of them."""
    return {line["row"] for line in read("reproduction") if line["reproduced"] != "no"}


@dataclass(frozen=True, eq=False)
class Shift:
    """Runs that are compared with each other.

    Args:
        runs: a line per run, scores in %.
        blocks: graphs, directions or periods, with their names in print.
        metrics: scores in print, the one that ranks the rows first.
        unit: what counts once in tests.
        names: names of rows in print.
    """

    runs: pd.DataFrame
    blocks: dict[str, str]
    metrics: dict[str, str]
    unit: str
    names: dict[str, str]

    @property
    def metric(self) -> str:
        return next(iter(self.metrics))

    def name(self, row: str) -> str:
        """A row in print; ‡ marks a rival that has not reproduced its paper."""
        name, first = self.names[row], row.partition("-")[0]
        if row in (OURS, DEFAULTS):
            return f"**{name}**"
        is_reproduced = first in PLAN["own"] or first in reproduced()
        return name if is_reproduced else f"{name}‡"

    def of(self, row: str) -> pd.DataFrame:
        return self.runs[self.runs.row == row]

    def by_block(self, row: str, metric: str = "") -> list[float]:
        """Mean score of a row on each block; NaN where it is missing."""
        scores = self.of(row).groupby("block")[metric or self.metric].mean()
        return [float(scores.get(block, math.nan)) for block in self.blocks]

    def mean(self, row: str, metric: str = "") -> float:
        """Mean over the blocks of a score; NaN if a block lacks it."""
        return math.fsum(self.by_block(row, metric)) / len(self.blocks)

    def each(self, row: str) -> str:
        """Runs per block, a range where blocks differ."""
        counts = self.of(row).groupby("block").size()
        low, high = counts.min(), counts.max()
        return str(low) if low == high else f"{low} to {high}"

    def rows(self) -> list[str]:
        """The oracle, then the rows by their mean; those that lack a block are last."""

        def place(row: str) -> tuple[bool, bool, float]:
            found = [score for score in self.by_block(row) if not math.isnan(score)]
            return row != ORACLE, len(found) < len(self.blocks), -mean(found)

        return sorted(self.runs.row.unique(), key=place)

    def gaps(self, row: str, metric: str = "", unit: str = "", ours: str = OURS) -> Gaps:
        """SRNC+ minus a row on the splits that both have."""
        pair = self.runs[self.runs.row.isin((ours, row))]
        splits = pair.groupby(["row", "block", "unit", "split"], sort=False)
        score = splits[metric or self.metric].mean()
        gap = (score[ours] - score[row]).dropna().groupby(["block", "unit"], sort=False).mean()
        gap = gap.round(statistics.DECIMALS)
        if (unit or self.unit) == "directions":
            gap = gap.groupby("block", sort=False).mean()
        return Gaps(gap)

    def tests(
        self, metric: str = "", unit: str = "", ours: str = OURS
    ) -> dict[str, tuple[Gaps, float]]:
        """SRNC+ minus each rival, and p with Holm's correction over the rivals."""
        rivals = [row for row in self.rows() if row != ORACLE and not row.startswith(OURS)]
        found = [self.gaps(row, metric, unit, ours) for row in rivals]
        return dict(zip(rivals, zip(found, holm([gaps.p for gaps in found]))))


def warned_gaps() -> pd.DataFrame:
    """Runs of SRNC+ whose diagnostics are stored: ``table``, ``gap`` to the plain GCN in points of
    Micro-F1 on the same split, and whether the diagnostics ``warned``."""
    runs = every_run()
    warned = (runs.diagnostics != "none").where(runs.diagnostics.notna())
    runs = runs.assign(warned=warned, micro_f1=100 * runs.micro_f1)
    parts = [(runs, ["table", "block", "seed"], "row", OURS, "erm")]
    own, abstains = (pd.read_csv(DATA / f"{name}-runs.csv") for name in ("own-graphs", "no-harm"))
    own = own.assign(table="own", warned=own.diagnostics > 0)
    parts.append((own, ["table", "graph", "split"], "method", "SRNC+", "GCN"))
    for method in ("SRNC+", "SRNC+ without its tests"):
        found = abstains.assign(table=method)
        parts.append((found, ["table", "situation", "data", "seed"], "method", method, "GCN"))
    out = []
    for runs, key, column, ours, gcn in parts:
        runs = runs.rename(columns={"Micro-F1": "micro_f1"})
        both = runs[runs[column] == ours].dropna(subset="warned")
        both = both.merge(runs[runs[column] == gcn], on=key, suffixes=("", "_gcn"))
        out.append(both.assign(gap=both.micro_f1 - both.micro_f1_gcn)[["table", "gap", "warned"]])
    found = pd.concat(out)
    return found[found.table.isin(PLAN["warned"])].astype({"warned": bool})


def with_seeds(runs: pd.DataFrame, block: str, count: int, rows: Iterable[str]) -> pd.DataFrame:
    """The runs with seeds below ``count`` of rows that have all of them on a block."""
    found = runs[(runs.block == block) & (runs.seed < count)]
    whole = {row for row, number in found.groupby("row").size().items() if number == count}
    order = [row for row in rows if row in whole]
    return pd.concat([found[found.row == row] for row in order])


def with_chosen(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of one block, and rows that choose among variants on validation."""
    more = []
    for row, variants in PLAN["chosen"].items():
        present = [variant for variant in variants if (runs.row == variant).any()]
        if len(present) > 1:
            more.append(best_on_validation([runs[runs.row == one] for one in present], row))
    return pd.concat([runs, *more])


def best_on_validation(variants: Sequence[pd.DataFrame], row: str) -> pd.DataFrame:
    """By seed the run of the variant with the best Micro-F1 on validation, the first if equal."""
    every = pd.concat(variants, ignore_index=True)
    every = every[every.groupby("seed").row.transform("size") == len(variants)]
    return every.loc[every.groupby("seed").val_micro_f1.idxmax()].assign(row=row)


@functools.cache
def shifts() -> dict[str, Shift]:
    """All comparisons by name."""
    names = PLAN["names"]
    open_names = names | PLAN["open_set_names"]
    all_methods = [row for row in open_names if row == OURS or not row.startswith(OURS)]
    runs, graphs, out = stored("open_set"), PLAN["open_set"], {}

    def opened(parts: Sequence[pd.DataFrame], *blocks: str) -> Shift:
        printed = {block: graphs[block]["name"] for block in blocks}
        return Shift(pd.concat(parts), printed, PLAN["metrics"], "class sets", open_names)

    for graph, entry in graphs.items():
        rows = PLAN["set_rows"]
        if graph == "pubmed":
            rows = rows + PLAN["pubmed_rows"]
        out[graph] = opened([with_chosen(with_seeds(runs, graph, entry["seeds"], rows))], graph)
        out[f"{graph}-10"] = opened([with_seeds(runs, graph, 10, all_methods)], graph)
    for graph, entry in PLAN["developed"].items():
        found = with_chosen(with_seeds(runs, graph, entry["seeds"], open_names))
        shown = {graph: entry["name"]}
        # Only two variants of PGL were run.
        found = found[found.row != "pgl-chosen-5"]
        out[graph] = Shift(found, shown, PLAN["metrics"], "class sets", open_names)
    runs = stored("synthetic")
    kinds = {str(kind): str(kind) for kind in range(len(PLAN["synthetic"]["kinds"]))}
    found = pd.concat([with_chosen(runs[runs.block == kind]) for kind in kinds])
    out["synthetic"] = Shift(found, kinds, PLAN["metrics"], "directions", names)
    out["sets"] = opened([out["cora"].runs, out["citeseer"].runs], "cora", "citeseer")
    out["ten"] = opened([out[f"{graph}-10"].runs for graph in graphs], *graphs)
    two = {key: PLAN["metrics"][key] for key in ("micro_f1", "macro_recall")}
    for name, entry in PLAN["shifts"].items():
        metrics = entry.get("metrics", two)
        out[name] = Shift(stored(name), entry["blocks"], metrics, entry["unit"], names)
    return out | {f"tuned-{name}": tuned(out[one["hand"]], one) for name, one in TUNED.items()}


TUNED: dict[str, dict[str, Any]] = PLAN["tuned"]


def tuned(hand: Shift, entry: dict[str, Any]) -> Shift:
    """Rows that a search tuned, and SRNC+ at its defaults beside them."""
    runs = stored(f"tuned-{hand.runs.table.iloc[0]}")
    runs = runs[runs.block.isin(hand.blocks) & ~((runs.row == OURS) & entry.get("old", False))]
    defaults = hand.of(OURS)
    defaults = defaults[defaults.seed < entry["reported"]].assign(row=DEFAULTS)
    wanted = (hand.metric, "macro_recall", "unknown_auroc")
    metrics = {key: name for key, name in hand.metrics.items() if key in wanted}
    return replace(hand, runs=pd.concat([runs, defaults]), metrics=metrics)


class Line(NamedTuple):
    """A shift in the summary: SRNC+, the strongest other method, and their paired difference."""

    label: str
    n: str
    ours: float
    rival: str
    theirs: float
    plain: float
    difference: float
    ends: tuple[float, float]
    wins: str
    p: float


SUMMARY = [
    ("New classes, 20 labels: Cora", "cora", "pgl-chosen-5", "class sets"),
    ("New classes, 20 labels: CiteSeer", "citeseer", "pgl-chosen-5", "class sets"),
    ("New classes, 20 labels: PubMed", "pubmed", "srnc", "class sets"),
    ("Another network: citation", "citation", "a2gnn", "directions"),
    ("Another time: synthetic growing graph", "arxiv_like", "erm-corrected", "runs"),
    ("Another place: localized labels", "localized", "srnc", "runs"),
]
"""Shifts of the summary whose runs are stored, and the strongest other row."""


def compared(
    label: str, unit: str, rival: str, gaps: Gaps, ours: float, theirs: float, plain: float
) -> Line:
    """A line from paired differences."""
    first = label, f"{len(gaps)} {unit}", ours, rival, theirs, plain
    return Line(*first, gaps.mean, gaps.ends, gaps.wins, gaps.p)


@functools.cache
def summary_lines() -> list[Line]:
    """The summary, from the runs and the files."""
    out = []
    for label, name, row, unit in SUMMARY:
        shift = shifts()[name]
        ours = shift.of(OURS).merge(shift.of(row)[["block", "seed"]])
        score = average(ours.groupby("block")[shift.metric].mean())
        both = shift.mean(row), shift.mean("erm")
        out.append(compared(label, unit, plain_name(shift, row), shift.gaps(row), score, *both))
    out[3:3] = own_lines()
    shift = shifts()["ocnnc"]
    searched = stored("tuned-ocnnc")
    searched = searched[searched.row == "erm"].assign(row="tuned")
    shift = replace(shift, runs=pd.concat([shift.runs, searched]))
    label = "Another network and new classes: OCNNC (HS)"
    rival, means = "GCN + PPR + prior correction, tuned", map(shift.mean, (OURS, "tuned", "erm"))
    out.append(compared(label, "directions", rival, shift.gaps("tuned"), *means))
    rows = {line["found on the source by"]: line for line in read("source-first")}
    line, ours = rows["PGL+GCN"], rows["SRNC+, with iterations on the target"]["Micro-F1"]
    first = (
        "Another network, one class unlabelled†",
        f"{line['n']} directions × classes",
        float(ours),
    )
    first += ("PGL+GCN on the source first", float(line["Micro-F1"]), shifts()["both"].mean("erm"))
    gap, p = float(line["SRNC+ less it"]), float(line["p Wilcoxon"])
    out.append(Line(*first, gap, (math.nan, math.nan), in_words(line["wins"]), p))
    shift, rival = shifts()["synthetic"], "pgl-chosen-2"
    means, name = map(shift.mean, (OURS, rival, "erm")), plain_name(shift, rival)
    return [*out, compared("24 kinds of synthetic graph", "kinds", name, shift.gaps(rival), *means)]


@functools.cache
def own_runs() -> pd.DataFrame:
    """Micro-F1 on own graphs: a column per method, a line per graph and split."""
    runs = pd.read_csv(DATA / "own-graphs-runs.csv", encoding="utf-8")
    return runs.pivot(index=["graph", "split"], columns="method", values="Micro-F1")


def own_gaps(graph: str, rival: str) -> Gaps:
    """SRNC+ minus another method on each split of a graph."""
    runs = own_runs().loc[graph]
    return Gaps((runs["SRNC+"] - runs[rival]).dropna().round(statistics.DECIMALS))


def own_lines() -> list[Line]:
    """The summary's lines of own graphs: the strongest other method on each."""
    out = []
    for graph in dict.fromkeys(line["graph"] for line in read("own-graphs")):
        means = {method: average(own_runs().loc[graph, method]) for method in own_runs()}
        ours, plain = means.pop("SRNC+"), means["GCN"]
        rival = max(means, key=means.__getitem__)
        label, gaps = f"Own graph, 10 % labelled: {graph}", own_gaps(graph, rival)
        out.append(compared(label, "splits", rival, gaps, ours, means[rival], plain))
    return out


def plain_name(shift: Shift, row: str) -> str:
    return shift.name(row).strip("*").rstrip("‡")


def add(place: str, folder: Path) -> int:
    """Store the runs of an experiment in runs.csv under ``TABLE:BLOCK:ROW``; returns how many."""
    from graphgym_srnc.report.frame import collect

    lines = []
    for experiment in collect([folder]).experiments:
        for seed, run in experiment.results.items():
            masked = "+".join(map(str, run["info"].get("unseen", ())))
            scores = {key: f"{run['test'][key]:.4f}" for key in SCORES if key in run["test"]}
            lines.append(
                dict(zip(KEY, [*place.split(":"), str(seed)]))
                | {"split": run["split"][:12], "masked": masked, "episode": run["selected"]}
                | scores
                | {
                    "val_micro_f1": f"{run['val']['micro_f1']:.4f}",
                    "seconds": f"{run['seconds']:.1f}",
                    "peak_mib": f"{run['peak_memory_mib'] or 0:.0f}",
                    "warnings": len(run["warnings"]),
                    "diagnostics": "+".join(run["verdict"]["sentences"]) or "none",
                    "config": run["digest"][:12],
                    "commit": str(run["commit"])[:7],
                }
            )
    old = pd.read_csv(DATA / "runs.csv", dtype=str, keep_default_na=False, encoding="utf-8")
    every = pd.concat([old, pd.DataFrame(lines)]).drop_duplicates(KEY, keep="last")
    every = every.sort_values(
        KEY, key=lambda part: part.astype(int) if part.name == "seed" else part
    )
    every.to_csv(DATA / "runs.csv", index=False, lineterminator="\n", columns=old.columns)
    return len(lines)

"""Build the pages and plots of docs/results from the stored scores.

    python benchmarks/results.py            # write docs/results/*.md and *.png
    python benchmarks/results.py --check    # exit with 1 if a committed page differs
    python benchmarks/results.py --add open_set:cora:erm results/my_grid/default-cfg=cora_erm

The scores are the CSV files in docs/results/data. ``runs.csv`` has a line per run, and ``--add``
stores the runs of one experiment there under a table, a block and a row. ``tables.yaml`` says what
is compared. The prose is in benchmarks/templates, a file per page, with directives in double
braces: ``{{mean cora srnc-plus}}`` is a score, ``{{scores cora}}`` a table. So no number is typed
twice. Every directive is a method of :class:`Pages`.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
import re
import shlex
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

import pandas as pd
import yaml

from graphgym_srnc.report import statistics
from graphgym_srnc.report.paper import OPEN_SET
from graphgym_srnc.report.statistics import holm, mean, mean_std, p_value

ROOT = Path(__file__).resolve().parents[1]
FOLDER, TEMPLATES = ROOT / "docs" / "results", ROOT / "benchmarks" / "templates"
DATA = FOLDER / "data"
PLAN = yaml.safe_load((ROOT / "benchmarks" / "tables.yaml").read_text(encoding="utf-8"))

OURS, ORACLE, DEFAULTS = "srnc-plus", "iid", "srnc-plus-defaults"
KEY = ["table", "block", "row", "seed"]
SCORES = (
    "micro_f1 macro_f1 macro_recall unknown_recall unknown_precision unknown_auroc unknown_aupr"
    " unknown_fpr95 known_accuracy known_recall hs oscr"
).split()

# Numbers and tables in print


def p_text(p: float) -> str:
    """A p-value for a table."""
    return "< 0.0001" if p < 0.0001 else "-" if math.isnan(p) else f"{p:.2g}"


def around(centre: float, error: float, n: int) -> tuple[float, float]:
    """Student's 95 % interval of a mean of ``n`` values with a standard error."""
    from scipy.stats import t

    half = float(t.ppf(0.975, n - 1)) * error if n > 1 else math.nan
    return centre - half, centre + half


def ends_text(ends: tuple[float, float]) -> str:
    """An interval for a table."""
    return "-" if math.isnan(ends[0]) else f"{ends[0]:+.1f} to {ends[1]:+.1f}"


def score_text(score: float) -> str:
    return "-" if math.isnan(score) else f"{score:.1f}"


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
        return around(self.mean, mean_std(self)[1] / math.sqrt(max(len(self) - 1, 1)), len(self))

    @property
    def wins(self) -> str:
        return f"{sum(gap > 0 for gap in self)} of {len(self)}"


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table without the empty line at its end; columns of figures stand at the right."""
    rows = [list(map(str, line)) for line in lines]
    rule = [
        "---:" if all(re.match(r"[-+<\d]", line[i]) for line in rows) else "---"
        for i in range(len(head))
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows)).rstrip("\n")


# Stored scores


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
        return name + "‡" * (first not in PLAN["own"] and first not in reproduced())

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
        rivals = [row for row in self.rows() if row not in (ours, OURS, ORACLE, DEFAULTS)]
        found = [self.gaps(row, metric, unit, ours) for row in rivals]
        return dict(zip(rivals, zip(found, holm([gaps.p for gaps in found]))))


def average(scores: pd.Series) -> float:
    """The exact mean of scores without the missing ones; NaN of none."""
    return mean(scores.dropna())


def spread(scores: pd.Series) -> str:
    """Mean ± population standard deviation."""
    values = scores.dropna().tolist()
    return "{:.1f} ± {:.1f}".format(*mean_std(values)) if values else "-"


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
    runs, graphs, out = stored("open_set"), PLAN["open_set"], {}

    def opened(parts: Sequence[pd.DataFrame], *blocks: str) -> Shift:
        printed = {block: graphs[block]["name"] for block in blocks}
        return Shift(pd.concat(parts), printed, PLAN["metrics"], "class sets", open_names)

    for graph, entry in graphs.items():
        rows = PLAN["set_rows"] + PLAN["pubmed_rows"] * (graph == "pubmed")
        out[graph] = opened([with_chosen(with_seeds(runs, graph, entry["seeds"], rows))], graph)
        out[f"{graph}-10"] = opened([with_seeds(runs, graph, 10, open_names)], graph)
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


class Pages:
    """The directives of the templates; each public method is one."""

    # Single figures

    def lead(self, shift: str, row: str, metric: str = "", ours: str = OURS) -> str:
        """How far two scores are apart, in points without a sign."""
        return self.gap(shift, row, metric, ours).lstrip("+-")

    def mean(self, shift: str, row: str, metric: str = "") -> str:
        """A score in %, the mean over runs and blocks: ``mean cora srnc-plus``."""
        return f"{shifts()[shift].mean(row, metric):.1f}"

    def gap(self, shift: str, row: str, metric: str = "", ours: str = OURS) -> str:
        """SRNC+ minus a row, in points."""
        return f"{shifts()[shift].gaps(row, metric, ours=ours).mean:+.1f}"

    def p(self, shift: str, row: str, metric: str = "", unit: str = "", ours: str = OURS) -> str:
        """Wilcoxon's p."""
        return self._p(shifts()[shift].gaps(row, metric, unit, ours).p)

    def holm(self, shift: str, row: str, metric: str = "") -> str:
        """Wilcoxon's p with Holm's correction over the rows of the table."""
        return self._p(shifts()[shift].tests(metric)[row][1])

    def synthetic_p(self, row: str) -> str:
        """Wilcoxon's p over the kinds of synthetic graph."""
        return self._p(p_value([float(line[f"less {row}"]) for line in read("synthetic")]))

    @staticmethod
    def _p(p: float) -> str:
        return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"

    def cell(self, file: str, column: str, *wanted: str) -> str:
        """A cell of a file: ``cell own-graphs Micro-F1 graph=Cora method=SRNC+``."""
        keys = dict(word.split("=", 1) for word in wanted)
        found = [line for line in read(file) if keys.items() <= line.items()]
        if len(found) != 1:
            raise SystemExit(f"{file}.csv has {len(found)} lines with {keys}")
        return in_words(found[0][column]).lstrip("+")

    # Tables of runs

    def scores(self, name: str, most: str = "9") -> str:
        """Scores of all rows, mean ± standard deviation over runs; ``most``: of how many scores."""
        shift = shifts()[name]
        metrics = dict(list(shift.metrics.items())[: int(most)])
        single, lines = len(shift.blocks) == 1, []
        for row in shift.rows():
            runs = shift.of(row)
            if single:
                cells = [spread(runs[metric]) for metric in metrics]
            else:
                cells = [spread(runs[runs.block == block][shift.metric]) for block in shift.blocks]
                cells += [score_text(shift.mean(row, metric)) for metric in metrics]
            lines.append([shift.name(row), shift.each(row), *cells, f"{average(runs.seconds):.1f}"])
        if single:
            return table(["method", "runs", *metrics.values(), "s per run"], lines)
        means = [f"mean {text}" for text in metrics.values()]
        return table(["method", "runs each", *shift.blocks.values(), *means, "s per run"], lines)

    def by_block(self, name: str) -> str:
        """Every score of every row, the mean over blocks alone."""
        shift = shifts()[name]
        lines = [
            [shift.name(row), shift.each(row)]
            + [f"{shift.mean(row, metric):.1f}" for metric in shift.metrics]
            for row in shift.rows()
        ]
        return table(["method", "runs each", *shift.metrics.values()], lines)

    def tests(self, name: str) -> str:
        """SRNC+ minus each row, with paired tests."""
        shift = shifts()[name]
        by_direction = shift.unit == "directions"
        first, recall, runs = shift.tests(), shift.tests("macro_recall"), shift.tests(unit="runs")
        # Where a direction has one split, its runs are no more units than it is.
        several = by_direction and any(len(runs[row][0]) > len(first[row][0]) for row in first)
        lines = []
        for row, (gaps, corrected) in first.items():
            recalls, recalls_corrected = recall[row]
            cells = [f"{gaps.mean:+.1f}", ends_text(gaps.ends), gaps.wins, p_text(gaps.p)]
            cells.append(p_text(corrected))
            if several:
                cells += [runs[row][0].wins, p_text(runs[row][0].p), p_text(runs[row][1])]
            cells.append(f"{recalls.mean:+.1f}")
            if by_direction:
                cells += [recalls.wins, p_text(recalls.p)]
            else:
                cells = [len(gaps), *cells, p_text(recalls.p), p_text(recalls_corrected)]
            lines.append([shift.name(row), *cells])
        won = "directions won" if by_direction else "wins"
        head = ["SRNC+ minus", *([] if by_direction else [f"n ({shift.unit})"])]
        head += [shift.metrics[shift.metric], "95 % interval", won, "p", "Holm"]
        head += ["runs won", "p", "Holm"] * several + [shift.metrics["macro_recall"]]
        return table([*head, *(["directions won", "p"] if by_direction else ["p", "Holm"])], lines)

    def srnc_tests(self) -> str:
        """SRNC minus itself without the cluster GNN's pseudo-labels."""
        cases = {
            "20 labels, Cora": "cora-10",
            "20 labels, CiteSeer": "citeseer-10",
            "citation networks": "citation",
            "over time (synthetic)": "arxiv_like",
        }
        other = "srnc-no-phi"
        found = [shifts()[name].gaps(other, unit="runs", ours="srnc") for name in cases.values()]
        corrected = holm([gaps.p for gaps in found])
        lines = []
        for (text, name), gaps, p in zip(cases.items(), found, corrected):
            pair = [f"{average(shifts()[name].of(row).micro_f1):.1f}" for row in ("srnc", other)]
            cells = [f"{gaps.mean:+.1f}", ends_text(gaps.ends), gaps.wins, p_text(gaps.p)]
            lines.append([text, *pair, len(gaps), *cells, p_text(p)])
        head = ["shift", "SRNC", "SRNC without Φ", "n", "difference", "95 % interval", "wins"]
        return table([*head, "p", "Holm"], lines)

    def paper_table(self) -> str:
        """Micro-F1 and macro recall of all methods on ten class sets, beside the paper's."""
        shift = shifts()["ten"]
        lines = []
        for row in shift.rows():
            line, runs = [shift.name(row)], shift.of(row)
            for block, graph in shift.blocks.items():
                part = runs[runs.block == block]
                cells = [spread(part[metric]) for metric in ("micro_f1", "macro_recall")]
                printed = OPEN_SET.find(PLAN["paper"].get(row, ""), graph).values()
                line.append(" / ".join(cells) if len(part) else "-")
                line.append(" / ".join(f"{score.mean:.1f}" for score in printed) or "-")
            lines.append(line)
        graphs = [text for graph in shift.blocks.values() for text in (graph, "paper")]
        return table(["method", *graphs], lines)

    def ranks(self, name: str) -> str:
        """Mean ranks, and Friedman's test."""
        shift = shifts()[name]
        runs = shift.runs[shift.runs.row != ORACLE]
        score = runs.groupby(["block", "split", "row"])[shift.metric].mean().unstack("row")
        common = statistics.common_blocks(score)
        ranks = statistics.mean_ranks(common)
        best = sorted(ranks, key=ranks.__getitem__)[:5]
        text = ", ".join(f"{shift.name(row).strip('*')} {ranks[row]:.1f}" for row in best)
        full = score.groupby("block").mean().dropna(axis=1)
        p = statistics.friedman(full)
        return (
            f"The best mean ranks of {len(ranks)} methods over {len(common)} runs: {text}. "
            f"Friedman's test over the {len(shift.blocks)} means of {full.shape[1]} methods:"
            f" {self._p(p)}."
        )

    def tuned_table(self, name: str) -> str:
        """Tuned rows and SRNC+ at its defaults, with the tests of either."""
        shift, hand = shifts()[f"tuned-{name}"], self._by_hand(name)
        found = {line["row"]: line["seconds"] for line in read("tuned") if line["table"] == name}
        ours = [row for row in (OURS, DEFAULTS) if (shift.runs.row == row).any()]
        by = {row: shift.tests(ours=row) for row in ours}
        lines = []
        for row in shift.rows():
            same = shift.of(row)[["block", "seed"]].merge(hand[hand.row == row])
            then = same.groupby("block")[shift.metric].agg(average)
            line = [shift.name(row), shift.each(row)]
            line += [f"{shift.mean(row, metric):.1f}" for metric in shift.metrics]
            line.append(score_text(average(then)))
            for one in ours:
                gaps, corrected = by[one].get(row, (Gaps(), math.nan))
                line += (
                    [f"{gaps.mean:+.1f}", gaps.wins, p_text(gaps.p), p_text(corrected)]
                    if gaps
                    else ["-"] * 4
                )
            lines.append([*line, found.get(row, "-")])
        head = ["method", "runs each", *shift.metrics.values(), "hand-set"]
        for one in ours:
            title = "SRNC+ minus" if one == OURS else "SRNC+, defaults, minus"
            head += [title, "wins", "p", "Holm"]
        return table([*head, "s of tuning"], lines)

    def _by_hand(self, name: str) -> pd.DataFrame:
        """All stored runs of the hand-set table of a tuned one, on its blocks."""
        runs = stored(shifts()[TUNED[name]["hand"]].runs.table.iloc[0])
        return runs[runs.block.isin(shifts()[f"tuned-{name}"].blocks)]

    def tuned_gap(self, name: str, row: str) -> str:
        """Tuned SRNC+ minus the hand-set row of another method, on the same splits."""
        shift, hand = shifts()[f"tuned-{name}"], self._by_hand(name)
        other = hand[hand.row == row].assign(row="hand")
        gaps = replace(shift, runs=pd.concat([shift.of(OURS), other])).gaps("hand")
        return f"{gaps.mean:+.2f} points, {gaps.wins} {shift.unit}, {self._p(gaps.p)}"

    # Tables of files

    def file_table(self, name: str, *columns: str) -> str:
        """Columns of a file, ``X`` with its ``X ±``; ``X=title`` gives one another title."""
        lines = read(name)
        titles = dict(
            (column.split("=", 1) if "=" in column else (column, column))
            for column in columns or [key for key in lines[0] if not key.endswith((" ±", " wins"))]
        )
        rows = []
        for line in lines:
            row = []
            for column in titles:
                cell = in_words(line.get(column, "")) or "-"
                error = line.get(f"{column} ±")
                if cell != "-" and column in ("p", "p Wilcoxon", "Holm"):
                    cell = p_text(float(cell))
                row.append(f"{cell} ± {error}" if error else cell)
            rows.append(["**SRNC+**" if cell == "SRNC+" else cell for cell in row])
        return table(list(titles.values()), rows)

    def own_tests(self) -> str:
        """SRNC+ minus each method on own graphs; Holm over the tests of one method."""
        lines = pd.DataFrame(read("own-graphs-2"))
        p = lines.p.astype(float)
        corrected = p.groupby(lines.against).transform(lambda part: holm(part.tolist()))
        rows = []
        for line, holms in zip(lines.to_dict("records"), corrected):
            gap, ends = float(line["difference"]), ends_text(own_ends(line))
            cells = [line["graph"], line["against"], line["n"], f"{gap:+.1f}", ends]
            cells += [in_words(line["wins"]), p_text(float(line["p"])), p_text(holms)]
            rows.append([*cells, line["source"]])
        head = ["graph", "SRNC+ minus", "n (splits)", "Micro-F1", "95 % interval", "wins"]
        return table([*head, "p", "Holm", "source"], rows)

    def ablation(self, name: str) -> str:
        """What is lost without each component."""
        lines = read(name)
        kinds = [key for key in PLAN["kinds"] if key in lines[0]]
        columns = [*kinds, "p Wilcoxon", "Holm"]
        columns += ["AUROC", "p Wilcoxon 2", "Holm 2"] * ("AUROC" in lines[0])
        rows = []
        for line in lines:
            row = [PLAN["ablated"][line["without"]]]
            for column in columns:
                cell, wins = line[column], line.get(f"{column} wins")
                if cell and column.startswith(("p ", "Holm")):
                    cell = p_text(float(cell))
                row.append(f"{cell} ({wins})" if wins else cell or "-")
            rows.append(row)
        titles = {"p Wilcoxon": "p", "p Wilcoxon 2": "p", "Holm 2": "Holm"} | PLAN["kinds"]
        return table(["without", *(titles.get(column, column) for column in columns)], rows)

    def summary(self) -> str:
        """One line per shift: SRNC+ beside the strongest other method and a plain GCN."""
        rows = []
        for line in summary_lines():
            numbers = [f"{line.theirs:.1f}", f"{line.difference:+.1f}", ends_text(line.ends)]
            first = [line.label, line.n, f"{line.ours:.1f}", line.rival]
            rows.append([*first, *numbers, line.wins, p_text(line.p), f"{line.plain:.1f}"])
        head = ["shift", "n", "SRNC+", "strongest other method", "its score", "difference"]
        return table([*head, "95 % interval", "wins", "p", "plain GCN"], rows)

    # What every page ends with

    def provenance(self, *names: str) -> str:
        """The commits of the runs of some tables of runs.csv."""
        commits = pd.concat([stored(name) for name in names]).commit.str[:7]
        text = ", ".join(sorted(set(commits)))
        return f"{len(commits):,} runs, commits {text}. {PLAN['versions']}."

    def mark(self) -> str:
        """What the mark of a rival means."""
        return (
            "‡: this rival has not reproduced a number of its paper in this package, or was"
            " not tested for it ([reproduction](../reproduction.md))."
        )


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
    first = "Another network, one class unlabelled", f"{line['n']} runs", float(ours)
    first += ("PGL+GCN on the source first", float(line["Micro-F1"]), shifts()["both"].mean("erm"))
    gap, p = float(line["SRNC+ less it"]), float(line["p Wilcoxon"])
    out.append(Line(*first, gap, (math.nan, math.nan), in_words(line["wins"]), p))
    kinds = pd.DataFrame(read("synthetic"))
    means = [average(kinds[row].astype(float)) for row in (OURS, "pgl", "erm")]
    gaps = Gaps(kinds["less pgl"].astype(float))
    line = compared("24 kinds of synthetic graph", "kinds", "PGL+GCN", gaps, *means)
    (centre,) = [float(x["less pgl"]) for x in read("synthetic-2") if x["factor"] == "all"]
    return [*out, line._replace(difference=centre)]


def own_ends(line: dict[str, str]) -> tuple[float, float]:
    """The interval of a line of differences on own graphs; NaN where its error is not stored."""
    error = float(line["difference ±"] or "nan")
    return around(float(line["difference"]), error, int(line["n"]))


def own_lines() -> list[Line]:
    """The summary's lines of own graphs: the strongest PGL that was run on each."""
    scored = {
        (line["graph"], line["method"]): float(line["Micro-F1"]) for line in read("own-graphs")
    }
    out = []
    for graph in dict.fromkeys(graph for graph, _ in scored):
        rivals = [
            line
            for line in read("own-graphs-2")
            if line["graph"] == graph and line["against"] != "GCN"
        ]
        line = max(rivals, key=lambda one: scored[graph, one["against"]])
        rival, gap, p = line["against"], float(line["difference"]), float(line["p"])
        first = f"Own graph, 10 % labelled: {graph}", f"{line['n']} splits"
        scores = scored[graph, "SRNC+"], rival, scored[graph, rival], scored[graph, "GCN"]
        out.append(Line(*first, *scores, gap, own_ends(line), in_words(line["wins"]), p))
    return out


def plain_name(shift: Shift, row: str) -> str:
    return shift.name(row).strip("*").rstrip("‡")


# Pages


def render(text: str, pages: Pages) -> str:
    """A template with its directives replaced."""

    def replaced(found: re.Match[str]) -> str:
        name, *words = shlex.split(found[1])
        if name.startswith("_") or not hasattr(pages, name):
            raise SystemExit(f"no directive {name}")
        return str(getattr(pages, name)(*words))

    return re.sub(r"\{\{(.+?)\}\}", replaced, text, flags=re.S)


def wrapped(text: str) -> str:
    """Markdown whose prose is broken at 100 columns; tables, headings and pictures stay."""
    out = []
    for line in text.splitlines():
        if len(line) <= 100 or line.startswith(("|", "#", "!", "<!--")):
            out.append(line)
            continue
        # Code in a line is not broken.
        kept = re.sub(r"`[^`]*`", lambda found: found[0].replace(" ", "\0"), line)
        indent = " " * len(re.match(r" *(?:- )?", line)[0])
        lines = textwrap.wrap(
            kept, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        out += [part.replace("\0", " ") for part in lines]
    return "\n".join(out) + "\n"


def pages() -> dict[str, str]:
    """All pages by the name of their file."""
    made = Pages()
    note = "<!-- Generated by benchmarks/results.py from benchmarks/templates; do not edit. -->\n"
    return {
        file.name: note + wrapped(render(file.read_text(encoding="utf-8"), made))
        for file in sorted(TEMPLATES.glob("*.md"))
    }


def check(made: dict[str, str]) -> list[str]:
    """What is wrong with the pages on disk."""
    files = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.md")}
    found = [f"docs/results/{name} differs" for name in made if made[name] != files.get(name)]
    return found + [f"docs/results/{name} has no template" for name in sorted({*files} - {*made})]


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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("--check", action="store_true", help="write nothing; exit with 1 if a page differs")
    option("--no-plots", action="store_true", help="write the pages only")
    option(
        "--add",
        nargs=2,
        metavar=("TABLE:BLOCK:ROW", "DIR"),
        help="store the runs of an experiment in runs.csv instead",
    )
    args = parser.parse_args()
    if args.add:
        print(f"{add(args.add[0], Path(args.add[1]))} runs stored in {DATA / 'runs.csv'}")
        return 0
    made = pages()
    if args.check:
        found = check(made)
        print("\n".join(found) or f"{len(made)} pages are up to date")
        return int(bool(found))
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"docs/results/{name}: {len(text.split()):,} words")
    if not args.no_plots:
        import figures

        for file in figures.draw_all(FOLDER):
            print(f"docs/results/{file.name}: {file.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

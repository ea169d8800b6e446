"""Build the pages and plots of docs/results from the stored scores.

    python benchmarks/results.py            # write docs/results/*.md and *.png
    python benchmarks/results.py --check    # exit with 1 if a committed page differs

The scores are the CSV files in docs/results/data. ``runs.csv`` has a line per run; `open_set.py`,
`close_set.py` and `tuned.py` write it (option `--csv`). The other files are tables that a program
of this folder prints (`--out NAME.csv`). The prose is in benchmarks/templates, a file per page,
with directives in double braces: ``{{mean cora srnc-plus}}`` is a score, ``{{scores cora}}`` a
table. So no number is typed twice. Every directive is a method of :class:`Pages`.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import functools
import math
import re
import shlex
import sys
import textwrap
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import _harness as harness
import close_set
import open_set
import tuned
from _harness import Results, Table, by_split, differences, known, leading, scores

from graphgym_srnc.core.text import seeds
from graphgym_srnc.report.paper import OPEN_SET
from graphgym_srnc.report.statistics import friedman, holm, mean, mean_std, p_value

ROOT = Path(__file__).resolve().parents[1]
FOLDER, TEMPLATES = ROOT / "docs" / "results", Path(__file__).resolve().parent / "templates"
DATA = FOLDER / "data"

OURS, ORACLE = "srnc-plus", "iid"
METRICS = {
    "micro_f1": "Micro-F1",
    "macro_recall": "macro recall",
    "hs": "HS",
    "known_recall": "OS*",
    "unknown_recall": "unknown recall",
    "unknown_precision": "unknown precision",
    "unknown_auroc": "AUROC",
}
OF_TABLE = {"ocnnc": METRICS | {"macro_recall": "OS", "unknown_recall": "UNK"}}
"""Scores in print, and the names that one protocol gives them."""

NAMES = {
    "iid": "GCN (oracle)",
    "srnc-letter": "SRNC, literal",
    "srnc-no-phi": "SRNC without Φ",
    "srnc-no-source": "SRNC without L(Φ,θ,S)",
    "srnc-ep1": "SRNC, one episode",
    "srnc-plus-no-density": "SRNC+ without label density",
    "srnc-plus-no-modularity": "SRNC+ without modularity",
    "srnc-plus-source": "SRNC+, first iteration only",
    "srnc-paper": "SRNC, the paper's order",
    "erm-corrected": "GCN + PPR + prior correction",
    "cmd-corrected": "GCN-CMD + PPR + prior correction",
    "erm-share": "GCN, threshold by unknown share",
    "pgl-chosen-2": "PGL, chosen per split (GCN, PPR)",
    "pgl-chosen-5": "PGL, chosen per split (5 variants)",
}
"""Rows whose name in print is not that of the program which makes them."""

CHOSEN = {
    "pgl-chosen-2": ("pgl-gcn", "pgl-ppr"),
    "pgl-chosen-5": ("pgl-gcn", "pgl-ppr", "pgl-sage", "pgl-gat", "pgl-members"),
}
"""Rows made of others: on each split the variant with the best Micro-F1 on validation."""

OLDER_FORM = {("tuned-open_set", "pubmed"), ("tuned-both", None)}
"""Tables and blocks whose stored SRNC+ row is of an earlier form of it; the row is left out."""

NOT_IN_REPOSITORY = "6cec439"
"""A commit that some runs name and the repository does not have."""

VERSIONS = (
    "Python 3.11.7, torch 2.13.0 (CPU), torch-geometric 2.8.1, numpy 2.4.6, scipy 1.17.1,"
    " scikit-learn 1.9.1; one thread per run"
)

ABLATED = {
    "SRNC+ itself": "**SRNC+**",
    "the classifier alone": "iterations (the first classifier alone)",
    "the source not solved first": "solving the source first",
    "no correction": "prior correction",
    "no modularity": "modularity",
    "no sharing of the posterior": "smoothing of the posterior",
    "all decisions are learned": "learning the surest pseudo-labels only",
    "one turn": "iterations 2 and 3",
    "one spare cluster": "spare clusters (one instead of 12)",
    "missing labels not counted": "label density per community",
    "all steps of the classifier": "early stopping of the classifier",
    "five of a hundred known called unknown": "threshold at 80 % of known nodes (95 % instead)",
    "log-odds not shared": "smoothing of the log-odds",
    "communities learn a hundred steps": "stopping rule of the communities",
    "log-odds not divided": "division of the posterior by label shares",
    "one share learned": "choice of the pseudo-label share",
    "cluster GNN and classifier weigh the same": "weight of the cluster GNN from validation",
    "Newman's resolution": "resolution 2 of modularity (1 instead)",
    "missing labels at one weight": "choice of the label-density weight (not part of SRNC+ now)",
}
"""Components of SRNC+ by what benchmarks/ablations.py calls the run without them."""

KINDS = {
    "own": "own graph",
    "few": "20 labels",
    "gone": "classes deleted from source (HS)",
    "gone, HS": "classes deleted from source (HS)",
    "stays": "classes without labels in source",
    "close": "no new class",
    "all": "all",
}


class Shift(NamedTuple):
    """Runs that are compared with each other.

    Args:
        table: the runs by row and block.
        blocks: graphs, directions or periods, with their names in print.
        metrics: scores in print, the one that ranks the rows first.
        unit: what counts once in tests.
        rows: name in print of a row.
    """

    table: Table
    blocks: dict[str, str]
    metrics: dict[str, str]
    unit: str
    rows: Callable[[str], str]

    @property
    def metric(self) -> str:
        return next(iter(self.metrics))


class Test(NamedTuple):
    """Paired differences of SRNC+ less another row, in points, one per unit."""

    gaps: list[float]

    @property
    def mean(self) -> float:
        return mean(self.gaps)

    @property
    def p(self) -> float:
        return p_value(self.gaps)


def interval(gaps: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of a mean."""
    centre, std = mean_std(gaps)
    if len(gaps) < 2:
        return math.nan, math.nan
    return around(centre, std / math.sqrt(len(gaps) - 1), len(gaps))


def around(centre: float, error: float, n: int) -> tuple[float, float]:
    """Student's 95 % interval of a mean of ``n`` values with a standard error."""
    from scipy.stats import t

    half = float(t.ppf(0.975, n - 1)) * error
    return centre - half, centre + half


def small(p: float) -> str:
    """A p-value for a table."""
    return "< 0.0001" if p < 0.0001 else "-" if math.isnan(p) else f"{p:.2g}"


def shown(ends: tuple[float, float]) -> str:
    """An interval for a table."""
    return "-" if math.isnan(ends[0]) else f"{ends[0]:+.1f} to {ends[1]:+.1f}"


def read(name: str) -> list[dict[str, str]]:
    """The lines of a file of docs/results/data."""
    with open(DATA / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def best_on_validation(variants: Sequence[Results]) -> Results:
    """By seed the run of the variant with the best Micro-F1 on validation, the first if equal."""
    common = set.intersection(*map(set, variants))
    return {
        seed: max((variant[seed] for variant in variants), key=lambda run: run["val"]["micro_f1"])
        for seed in sorted(common)
    }


@functools.cache
def stored(table: str) -> Table:
    """The runs of a table of runs.csv by row and block."""
    found: Table = {}
    for (block, row), results in known(DATA / "runs.csv", table).items():
        found.setdefault(row, {})[block] = results
    return found


def limited(table: Table, block: str, splits: Iterable[int], rows: Iterable[str]) -> Table:
    """The rows that have every seed of one block."""
    wanted = set(splits)
    return {
        row: {block: {seed: table[row][block][seed] for seed in sorted(wanted)}}
        for row in rows
        if wanted <= table.get(row, {}).get(block, {}).keys()
    }


def with_chosen(table: Table, block: str) -> Table:
    """A table of one block and rows that choose among variants of PGL on validation."""
    more = {}
    for row, variants in CHOSEN.items():
        found = [table[variant][block] for variant in variants if variant in table]
        if len(found) > 1:
            more[row] = {block: best_on_validation(found)}
    return table | more


def row_name(rows: dict[str, Any], row: str) -> str:
    """A row in print; a rival that has not reproduced its paper is marked."""
    name = NAMES.get(row) or rows[row][0]
    return f"**{name}**" if row == OURS else harness.marked(row, name)


@functools.cache
def shifts() -> dict[str, Shift]:
    """All comparisons by name."""
    opened = stored("open_set")
    names = functools.partial(row_name, open_set.ROWS)
    basic = {key: METRICS[key] for key in ("micro_f1", "macro_recall")}
    detect = basic | {
        key: METRICS[key] for key in ("unknown_recall", "unknown_precision", "unknown_auroc")
    }
    out = {}
    for graph, all_sets in {**open_set.ALL_SETS, "pubmed": range(10)}.items():
        rows = (
            open_set.SET_ROWS
            if graph in open_set.ALL_SETS
            else (
                *open_set.SET_ROWS,
                "srnc",
                "gnnsafe",
                "grasp",
                "srnc-plus-no-density",
                "srnc-plus-no-modularity",
            )
        )
        table = with_chosen(limited(opened, graph, all_sets, rows), graph)
        out[graph] = Shift(table, {graph: open_set.GRAPHS[graph]}, detect, "class sets", names)
    for graph, name in open_set.GRAPHS.items():
        table = limited(opened, graph, range(10), open_set.ROWS)
        out[f"{graph}-10"] = Shift(table, {graph: name}, detect, "class sets", names)
    both: Table = {}
    for graph in open_set.ALL_SETS:
        for row, blocks in out[graph].table.items():
            both.setdefault(row, {}).update(blocks)
    two = {graph: open_set.GRAPHS[graph] for graph in open_set.ALL_SETS}
    out["sets"] = Shift(both, two, detect, "class sets", names)
    ten: Table = {}
    for graph in open_set.GRAPHS:
        for row, blocks in out[f"{graph}-10"].table.items():
            ten.setdefault(row, {}).update(blocks)
    out["ten"] = Shift(ten, open_set.GRAPHS, detect, "class sets", names)

    for name, unit in {
        "citation": "directions",
        "arxiv_like": "runs",
        "localized": "runs",
        "ocnnc": "directions",
        "both": "directions × classes",
    }.items():
        rows = close_set.rows_of(name)
        keys = close_set.METRICS.get(name, ("micro_f1", "macro_recall"))
        print_as = OF_TABLE.get(name, METRICS)
        blocks = {block: close_set.BLOCKS[block] for block in close_set.TABLES[name]}
        out[name] = Shift(
            stored(name),
            blocks,
            {key: print_as[key] for key in keys},
            unit,
            functools.partial(row_name, rows),
        )
    return out | tuned_shifts(out)


def tuned_shifts(hand: dict[str, Shift]) -> dict[str, Shift]:
    """Tables of rows that a search tuned, with SRNC+ at its defaults beside them."""
    out = {}
    for name, plan in tuned.TABLES.items():
        table: Table = {}
        key = f"{name}-10" if name in open_set.GRAPHS else name
        for row, blocks in stored(f"tuned-{plan.hand}").items():
            old = row == OURS and any(
                (f"tuned-{plan.hand}", block) in OLDER_FORM for block in (name, None)
            )
            found = {block: blocks[block] for block in plan.blocks if block in blocks}
            if found and not old:
                table[row] = found
        table["srnc-plus-defaults"] = {
            block: {seed: run for seed, run in runs.items() if seed in plan.reported}
            for block, runs in hand[key].table[OURS].items()
        }
        metrics = {plan.metric: hand[key].metrics[plan.metric]} | {
            metric: text
            for metric, text in hand[key].metrics.items()
            if metric in ("macro_recall", "unknown_auroc")
        }
        unit = hand[key].unit
        rows = functools.partial(tuned_name, plan.rows)
        out[f"tuned-{name}"] = Shift(table, hand[key].blocks, metrics, unit, rows)
    return out


def tuned_name(rows: dict[str, Any], row: str) -> str:
    return "**SRNC+, defaults**" if row == "srnc-plus-defaults" else row_name(rows, row)


def ordered(shift: Shift) -> list[str]:
    """The rows, the oracle first, then by their mean over the blocks."""
    return leading(shift.table, shift.metric)


def test(shift: Shift, row: str, metric: str = "", unit: str = "", ours: str = OURS) -> Test:
    """SRNC+ less a row on what both have; of a whole table or of one block of it."""
    first, second = shift.table[ours], shift.table[row]
    pairs = [
        differences(first[block], second[block], metric or shift.metric)
        for block in shift.blocks
        if block in first and block in second
    ]
    if (unit or shift.unit) == "directions":
        return Test(list(map(mean, filter(None, pairs))))
    return Test(list(chain(*pairs)))


def tests(
    shift: Shift, metric: str = "", unit: str = "", ours: str = OURS, others: Sequence[str] = ()
) -> dict[str, tuple[Test, float]]:
    """SRNC+ less each row but the oracle, and p with Holm's correction over the rows."""
    rows = others or [
        row for row in ordered(shift) if row not in (ours, OURS, ORACLE, "srnc-plus-defaults")
    ]
    found = {row: test(shift, row, metric, unit, ours) for row in rows}
    return dict(zip(found, zip(found.values(), holm([one.p for one in found.values()]))))


def mean_of(shift: Shift, row: str, metric: str = "") -> float:
    """Mean over the blocks of a score in %; NaN where a block lacks the row."""
    blocks = shift.table[row]
    values = [
        100 * mean(run["test"][metric or shift.metric] for run in blocks[block].values())
        if block in blocks
        and any((metric or shift.metric) in run["test"] for run in blocks[block].values())
        else math.nan
        for block in shift.blocks
    ]
    return math.fsum(values) / len(values)


def number_of_runs(blocks: dict[str, Results]) -> str:
    """Runs per block, a range where blocks differ."""
    least, most = min(map(len, blocks.values())), max(map(len, blocks.values()))
    return str(least) if least == most else f"{least} to {most}"


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table without the empty line at its end; columns of figures stand at the right."""
    rows = [list(map(str, line)) for line in lines]
    rule = [
        "---:" if all(re.match(r"[-+<\d]", line[i]) for line in rows) else "---"
        for i in range(len(head))
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows)).rstrip("\n")


def in_words(cell: str) -> str:
    """``9/10`` as ``9 of 10``."""
    return re.sub(r"^(\d+)/(\d+)$", r"\1 of \2", cell)


def wins(gaps: Sequence[float]) -> str:
    return f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}"


class Pages:
    """The directives of the templates; each public method is one."""

    # Single figures

    def lead(self, shift: str, row: str, metric: str = "", ours: str = OURS) -> str:
        """How far two scores are apart, in points without a sign."""
        return self.gap(shift, row, metric, ours).lstrip("+-")

    def first_episode(self, shift: str, row: str) -> str:
        """In how many runs the episode before the first iteration is selected."""
        runs = [run for results in shifts()[shift].table[row].values() for run in results.values()]
        return f"{sum(run['selected'] == 0 for run in runs)} of {len(runs)}"

    def mean(self, shift: str, row: str, metric: str = "") -> str:
        """A score in %, the mean over runs and blocks: ``mean cora srnc-plus``."""
        return f"{mean_of(shifts()[shift], row, metric):.1f}"

    def on(self, shift: str, row: str, block: str, metric: str = "") -> str:
        """A score in % on one block."""
        one = shifts()[shift]
        runs = one.table[row][block].values()
        return f"{100 * mean(run['test'][metric or one.metric] for run in runs):.1f}"

    def gap(self, shift: str, row: str, metric: str = "", ours: str = OURS) -> str:
        """SRNC+ less a row, in points."""
        return f"{test(shifts()[shift], row, metric, ours=ours).mean:+.1f}"

    def ci(self, shift: str, row: str, metric: str = "", ours: str = OURS) -> str:
        """The 95 % interval of that."""
        return shown(interval(test(shifts()[shift], row, metric, ours=ours).gaps))

    def n(self, shift: str, row: str) -> str:
        """The number of paired differences."""
        return str(len(test(shifts()[shift], row).gaps))

    def wins(self, shift: str, row: str, metric: str = "", unit: str = "", ours: str = OURS) -> str:
        """How often SRNC+ has the higher score."""
        return wins(test(shifts()[shift], row, metric, unit, ours).gaps)

    def p(self, shift: str, row: str, metric: str = "", unit: str = "", ours: str = OURS) -> str:
        """Wilcoxon's p."""
        return self._p(test(shifts()[shift], row, metric, unit, ours).p)

    def holm(self, shift: str, row: str, metric: str = "", unit: str = "") -> str:
        """Wilcoxon's p with Holm's correction over the rows of the table."""
        return self._p(tests(shifts()[shift], metric, unit)[row][1])

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
        for row in ordered(shift):
            blocks = shift.table[row]
            line: list[Any] = [shift.rows(row), number_of_runs(blocks)]
            if single:
                line += [scores(next(iter(blocks.values())), metric) for metric in metrics]
            else:
                line += [scores(blocks.get(block, {}), shift.metric) for block in shift.blocks]
                means = [mean_of(shift, row, metric) for metric in metrics]
                line += ["-" if math.isnan(value) else f"{value:.1f}" for value in means]
            runs = [run for results in blocks.values() for run in results.values()]
            line.append(f"{mean(run['seconds'] for run in runs):.1f}")
            lines.append(line)
        first = (
            list(metrics.values())
            if single
            else [*shift.blocks.values(), *(f"mean {text}" for text in metrics.values())]
        )
        return table(["method", "runs" if single else "runs each", *first, "s per run"], lines)

    def by_block(self, name: str) -> str:
        """Every score of every row, the mean over blocks alone."""
        shift = shifts()[name]
        lines = [
            [
                shift.rows(row),
                number_of_runs(shift.table[row]),
                *(f"{mean_of(shift, row, metric):.1f}" for metric in shift.metrics),
            ]
            for row in ordered(shift)
        ]
        return table(["method", "runs each", *shift.metrics.values()], lines)

    def tests(self, name: str) -> str:
        """SRNC+ less each row, with paired tests."""
        shift = shifts()[name]
        first, recall = tests(shift), tests(shift, "macro_recall")
        if shift.unit == "directions":
            return self._tests_by_direction(shift, first)
        lines = []
        for row, (one, corrected) in first.items():
            lines.append(
                [
                    shift.rows(row),
                    len(one.gaps),
                    f"{one.mean:+.1f}",
                    shown(interval(one.gaps)),
                    wins(one.gaps),
                    small(one.p),
                    small(corrected),
                    f"{recall[row][0].mean:+.1f}",
                    small(recall[row][0].p),
                    small(recall[row][1]),
                ]
            )
        recalls = shift.metrics["macro_recall"]
        head = [
            "SRNC+ minus",
            f"n ({shift.unit})",
            shift.metrics[shift.metric],
            "95 % interval",
            "wins",
            "p",
            "Holm",
            recalls,
            "p",
            "Holm",
        ]
        return table(head, lines)

    def _tests_by_direction(self, shift: Shift, first: dict[str, tuple[Test, float]]) -> str:
        runs = tests(shift, unit="runs")
        # Where a direction has one split, its runs are no more units than it is.
        several = any(len(runs[row][0].gaps) > len(one.gaps) for row, (one, _) in first.items())
        lines = []
        for row, (one, corrected) in first.items():
            cells, on_cells = runs[row]
            recall = test(shift, row, "macro_recall")
            lines.append(
                [
                    shift.rows(row),
                    f"{one.mean:+.1f}",
                    shown(interval(one.gaps)),
                    wins(one.gaps),
                    small(one.p),
                    small(corrected),
                    *([wins(cells.gaps), small(cells.p), small(on_cells)] * several),
                    f"{recall.mean:+.1f}",
                    wins(recall.gaps),
                    small(recall.p),
                ]
            )
        title, recalls = shift.metrics[shift.metric], shift.metrics["macro_recall"]
        head = [
            "SRNC+ minus",
            title,
            "95 % interval",
            "directions won",
            "p",
            "Holm",
            *(["runs won", "p", "Holm"] * several),
            recalls,
            "directions won",
            "p",
        ]
        return table(head, lines)

    def srnc_tests(self) -> str:
        """Faithful SRNC less itself without the cluster GNN's pseudo-labels."""
        cases = {
            "20 labels, Cora": "cora-10",
            "20 labels, CiteSeer": "citeseer-10",
            "citation networks": "citation",
            "over time (synthetic)": "arxiv_like",
        }
        found = {
            text: test(shifts()[name], "srnc-no-phi", unit="runs", ours="srnc")
            for text, name in cases.items()
        }
        corrected = holm([one.p for one in found.values()])
        lines = []
        for (text, one), p in zip(found.items(), corrected):
            shift = shifts()[cases[text]]
            pair = [
                100
                * mean(
                    run["test"]["micro_f1"]
                    for block in shift.table[row].values()
                    for run in block.values()
                )
                for row in ("srnc", "srnc-no-phi")
            ]
            lines.append(
                [
                    text,
                    *(f"{value:.1f}" for value in pair),
                    len(one.gaps),
                    f"{one.mean:+.1f}",
                    shown(interval(one.gaps)),
                    wins(one.gaps),
                    small(one.p),
                    small(p),
                ]
            )
        return table(
            [
                "shift",
                "SRNC",
                "SRNC without Φ",
                "n",
                "difference",
                "95 % interval",
                "wins",
                "p",
                "Holm",
            ],
            lines,
        )

    def paper_table(self) -> str:
        """Micro-F1 and macro recall of all methods on ten class sets, beside the paper's."""
        shift = shifts()["ten"]
        lines = []
        for row in ordered(shift):
            line = [shift.rows(row)]
            for block, graph in shift.blocks.items():
                results = shift.table[row].get(block)
                cells = [scores(results or {}, metric) for metric in ("micro_f1", "macro_recall")]
                printed = OPEN_SET.find(open_set.ROWS[row][0], graph).values()
                line += [
                    " / ".join(cells) if results else "-",
                    " / ".join(f"{score.mean:.1f}" for score in printed) or "-",
                ]
            lines.append(line)
        return table(
            ["method", *(text for graph in shift.blocks.values() for text in (graph, "paper"))],
            lines,
        )

    def ranks(self, name: str) -> str:
        """Mean ranks, and Friedman's test."""
        shift = shifts()[name]
        rows = {row: blocks for row, blocks in shift.table.items() if row != ORACLE}
        found, line = harness.mean_ranks(rows, shift.metric)
        best = sorted(found, key=found.__getitem__)[:5]
        text = ", ".join(f"{shift.rows(row).strip('*')} {found[row]:.1f}" for row in best)
        common = re.search(r"Mean ranks of (\d+) rows over (\d+) cells", line)
        return (
            f"The best mean ranks of {common[1]} methods over {common[2]} runs: {text}."
            f" {self._friedman(rows, shift)}"
        )

    def _friedman(self, rows: Table, shift: Shift) -> str:
        full = {
            row: {
                block: mean(by_split(results, shift.metric).values())
                for block, results in blocks.items()
            }
            for row, blocks in rows.items()
        }
        full = {row: means for row, means in full.items() if len(means) == len(shift.blocks)}
        if len(shift.blocks) < 2 or len(full) < 3:
            return ""
        p = friedman(full, list(shift.blocks))
        return (
            f"Friedman's test over the {len(shift.blocks)} means of {len(full)} methods:"
            f" {self._p(p)}."
        )

    def tuned_table(self, name: str) -> str:
        """Tuned rows and SRNC+ at its defaults, with the tests of either."""
        shift, plan = shifts()[f"tuned-{name}"], tuned.TABLES[name]
        hand = stored(plan.hand)
        found = {(line["table"], line["row"]): line for line in read("tuned")}
        ours = [row for row in (OURS, "srnc-plus-defaults") if row in shift.table]
        by = {row: tests(shift, ours=row) for row in ours}
        lines = []
        for row in ordered(shift):
            blocks = shift.table[row]
            before = {
                block: {
                    seed: hand[row][block][seed] for seed in results if seed in hand[row][block]
                }
                for block, results in blocks.items()
                if block in hand.get(row, {})
            }
            then = [
                100 * mean(run["test"][shift.metric] for run in runs.values())
                for runs in before.values()
                if runs
            ]
            study = found.get((name, row)) if row != "srnc-plus-defaults" else None
            line = [
                shift.rows(row),
                number_of_runs(blocks),
                *(f"{mean_of(shift, row, metric):.1f}" for metric in shift.metrics),
                f"{mean(then):.1f}" if then else "-",
            ]
            for one in ours:
                if row in by[one]:
                    gaps, corrected = by[one][row]
                    line += [f"{gaps.mean:+.1f}", wins(gaps.gaps), small(gaps.p), small(corrected)]
                else:
                    line += ["-"] * 4
            lines.append([*line, study["seconds"] if study else "-"])
        head = [
            "method",
            "runs each",
            *shift.metrics.values(),
            "hand-set",
            *(
                text
                for one in ours
                for text in (
                    "SRNC+ minus" if one == OURS else "SRNC+, defaults, minus",
                    "wins",
                    "p",
                    "Holm",
                )
            ),
            "s of tuning",
        ]
        return table(head, lines)

    def tuned_gap(self, name: str, row: str) -> str:
        """Tuned SRNC+ less the hand-set row of another method, on the same splits."""
        shift = shifts()[f"tuned-{name}"]
        hand = {
            block: runs
            for block, runs in stored(tuned.TABLES[name].hand)[row].items()
            if block in shift.blocks
        }
        one = test(shift._replace(table=shift.table | {"hand": hand}), "hand")
        return f"{one.mean:+.2f} points, {wins(one.gaps)} {shift.unit}, {self._p(one.p)}"

    def search(self, name: str) -> str:
        """How a table was tuned, in a sentence."""
        plan = tuned.TABLES[name]
        on = ", ".join(
            close_set.BLOCKS.get(block) or open_set.GRAPHS[block] for block in plan.tuned_on
        )
        unit = shifts()[f"tuned-{name}"].unit
        return (
            f"Tuned on {on} with split {seeds(plan.tuning)} by `{plan.selection}`.\n"
            f"Reported on split {seeds(plan.reported)}.\nTests count {unit}."
        )

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
                spread = line.get(f"{column} ±")
                if cell != "-" and column in ("p", "p Wilcoxon", "Holm"):
                    cell = small(float(cell))
                row.append(f"{cell} ± {spread}" if spread else cell)
            rows.append(["**SRNC+**" if cell == "SRNC+" else cell for cell in row])
        return table(list(titles.values()), rows)

    def own_tests(self) -> str:
        """SRNC+ less each method on own graphs; Holm over the tests of one method."""
        lines = read("own-graphs-2")
        corrected = {}
        for against in dict.fromkeys(line["against"] for line in lines):
            group = [line for line in lines if line["against"] == against]
            for line, p in zip(group, holm([float(line["p"]) for line in group])):
                corrected[line["graph"], against] = p
        rows = []
        for line in lines:
            error, n = line["difference ±"], int(line["n"])
            ends = around(float(line["difference"]), float(error), n) if error else (math.nan,) * 2
            rows.append(
                [
                    line["graph"],
                    line["against"],
                    n,
                    f"{float(line['difference']):+.1f}",
                    shown(ends),
                    in_words(line["wins"]),
                    small(float(line["p"])),
                    small(corrected[line["graph"], line["against"]]),
                    line["source"],
                ]
            )
        return table(
            [
                "graph",
                "SRNC+ minus",
                "n (splits)",
                "Micro-F1",
                "95 % interval",
                "wins",
                "p",
                "Holm",
                "source",
            ],
            rows,
        )

    def kinds(self) -> str:
        """The 24 kinds of synthetic graph."""
        rows = []
        for line in read("synthetic"):
            gaps = []
            for gap, error in (
                (line[f"less {row}"], line[f"less {row} ±"]) for row in ("erm", "pgl")
            ):
                gaps.append(f"{gap} ({shown(around(float(gap), float(error), int(line['n'])))})")
            rows.append(
                [
                    line["kind"],
                    *(
                        line[key] or "-"
                        for key in (
                            "classes",
                            "masked",
                            "homophily",
                            "degree exponent",
                            "imbalance",
                            "nodes",
                            "n",
                            "erm",
                            "pgl",
                            "srnc-plus",
                        )
                    ),
                    *gaps,
                ]
            )
        return table(
            [
                "kind",
                "classes",
                "masked",
                "homophily",
                "degree exponent",
                "imbalance",
                "nodes",
                "n",
                "GCN",
                "PGL+GCN",
                "SRNC+",
                "SRNC+ minus GCN",
                "SRNC+ minus PGL+GCN",
            ],
            rows,
        )

    def synthetic_p(self, row: str) -> str:
        """Wilcoxon's p over the kinds."""
        return self._p(p_value([float(line[f"less {row}"]) for line in read("synthetic")]))

    def ablation(self, name: str) -> str:
        """What is lost without each component."""
        rows, lines = [], read(name)
        kinds = [key for key in KINDS if key in lines[0]]
        more = "AUROC" in lines[0]
        for line in lines:
            row = [ABLATED[line["without"]]]
            for kind in kinds:
                better = line[f"{kind} wins"]
                row.append(f"{line[kind]} ({better})" if better else line[kind] or "-")
            row += [small(float(line[key])) if line[key] else "-" for key in ("p Wilcoxon", "Holm")]
            if more:
                better = line["AUROC wins"]
                row += [
                    f"{line['AUROC']} ({better})" if better else "-",
                    *(
                        small(float(line[key])) if line[key] else "-"
                        for key in ("p Wilcoxon 2", "Holm 2")
                    ),
                ]
            rows.append(row)
        head = [
            "without",
            *(KINDS[kind] for kind in kinds),
            "p",
            "Holm",
            *(["AUROC", "p", "Holm"] * more),
        ]
        return table(head, rows)

    def summary(self) -> str:
        """One line per shift: SRNC+ beside the strongest other method and a plain GCN."""
        rows = []
        for line in summary_lines():
            rows.append(
                [
                    line.label,
                    line.n,
                    f"{line.ours:.1f}",
                    line.rival,
                    f"{line.theirs:.1f}",
                    f"{line.difference:+.1f}",
                    shown(line.ends),
                    line.wins,
                    line.p,
                    f"{line.plain:.1f}",
                ]
            )
        return table(
            [
                "shift",
                "n",
                "SRNC+",
                "strongest other method",
                "its score",
                "difference",
                "95 % interval",
                "wins",
                "p",
                "plain GCN",
            ],
            rows,
        )

    # What every page ends with

    def provenance(self, *names: str) -> str:
        """The commits of the runs of some tables of runs.csv."""
        runs = [
            run
            for name in names
            for blocks in stored(name).values()
            for results in blocks.values()
            for run in results.values()
        ]
        commits = sorted({run["commit"][:7] for run in runs})
        lost = sum(run["commit"].startswith(NOT_IN_REPOSITORY) for run in runs)
        text = f"{len(runs):,} runs, commits {', '.join(commits)}. {VERSIONS}."
        if lost:
            text += (
                f"\n{lost} of these runs name commit {NOT_IN_REPOSITORY}, which is not in this"
                " repository: their code cannot be checked out."
            )
        return text

    def mark(self) -> str:
        """What the mark of a rival means."""
        return (
            "‡: this rival has not reproduced a number of its paper in this package, or was"
            " not tested for it ([reproduction](../reproduction.md))."
        )


class Line(NamedTuple):
    """A shift in the summary; the interval is of the paired difference."""

    label: str
    n: str
    ours: float
    rival: str
    theirs: float
    difference: float
    ends: tuple[float, float]
    wins: str
    p: str
    plain: float


SUMMARY = [
    ("New classes, 20 labels: Cora", "cora", "pgl-chosen-5", "class sets"),
    ("New classes, 20 labels: CiteSeer", "citeseer", "pgl-chosen-5", "class sets"),
    ("New classes, 20 labels: PubMed", "pubmed", "srnc", "class sets"),
    ("Another network: citation", "citation", "a2gnn", "directions"),
    ("Another time: synthetic growing graph", "arxiv_like", "erm-corrected", "runs"),
    ("Another place: localized labels", "localized", "srnc", "runs"),
]
"""Shifts of the summary whose runs are stored, and the strongest other row."""


@functools.cache
def summary_lines() -> list[Line]:
    """The summary, from the runs and the files."""
    out = []
    for label, name, row, unit in SUMMARY:
        shift = shifts()[name]
        one = test(shift, row)
        same = {
            block: {seed: run for seed, run in runs.items() if seed in shift.table[row][block]}
            for block, runs in shift.table[OURS].items()
        }
        ours = mean(
            100 * mean(run["test"][shift.metric] for run in runs.values()) for runs in same.values()
        )
        out.append(
            Line(
                label,
                f"{len(one.gaps)} {unit}",
                ours,
                plain_name(shift, row),
                mean_of(shift, row),
                one.mean,
                interval(one.gaps),
                wins(one.gaps),
                small(one.p),
                mean_of(shift, "erm"),
            )
        )
    out[3:3] = own_lines()
    universal = shifts()["ocnnc"]
    trained = universal._replace(table=universal.table | {"tuned": stored("tuned-ocnnc")["erm"]})
    one = test(trained, "tuned")
    out.append(
        Line(
            "Another network and new classes: OCNNC (HS)",
            f"{len(one.gaps)} directions",
            mean_of(trained, OURS),
            "GCN + PPR + prior correction, tuned",
            mean_of(trained, "tuned"),
            one.mean,
            interval(one.gaps),
            wins(one.gaps),
            small(one.p),
            mean_of(trained, "erm"),
        )
    )
    rows = {line["found on the source by"]: line for line in read("source-first")}
    line, ours = rows["PGL+GCN"], rows["SRNC+, with iterations on the target"]
    out.append(
        Line(
            "Another network, one class unlabelled",
            f"{line['n']} runs",
            float(ours["Micro-F1"]),
            "PGL+GCN on the source first",
            float(line["Micro-F1"]),
            float(line["SRNC+ less it"]),
            (math.nan, math.nan),
            in_words(line["wins"]),
            small(float(line["p Wilcoxon"])),
            mean_of(shifts()["both"], "erm"),
        )
    )
    kinds = read("synthetic")
    gaps = [float(line["less pgl"]) for line in kinds]
    centre = next(
        float(line["less pgl"]) for line in read("synthetic-2") if line["factor"] == "all"
    )
    out.append(
        Line(
            "24 kinds of synthetic graph",
            f"{len(gaps)} kinds",
            mean(float(line["srnc-plus"]) for line in kinds),
            "PGL+GCN",
            mean(float(line["pgl"]) for line in kinds),
            centre,
            interval(gaps),
            wins(gaps),
            small(p_value(gaps)),
            mean(float(line["erm"]) for line in kinds),
        )
    )
    return out


def own_lines() -> list[Line]:
    """The summary's lines of own graphs: the strongest PGL that was run on each."""
    scored = {
        (line["graph"], line["method"]): float(line["Micro-F1"]) for line in read("own-graphs")
    }
    out = []
    for graph in dict.fromkeys(graph for graph, _ in scored):
        found = [
            line
            for line in read("own-graphs-2")
            if line["graph"] == graph and line["against"] != "GCN"
        ]
        line = max(found, key=lambda one: scored[graph, one["against"]])
        error, gap = line["difference ±"], float(line["difference"])
        ends = around(gap, float(error), int(line["n"])) if error else (math.nan, math.nan)
        out.append(
            Line(
                f"Own graph, 10 % labelled: {graph}",
                f"{line['n']} splits",
                scored[graph, "SRNC+"],
                line["against"],
                scored[graph, line["against"]],
                gap,
                ends,
                in_words(line["wins"]),
                small(float(line["p"])),
                scored[graph, "GCN"],
            )
        )
    return out


def plain_name(shift: Shift, row: str) -> str:
    return shift.rows(row).strip("*").rstrip("‡")


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
        indent = re.match(r" *(?:- )?", line)[0]
        lines = textwrap.wrap(
            kept,
            100,
            subsequent_indent=" " * len(indent),
            break_long_words=False,
            break_on_hyphens=False,
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
    """The differences between the pages and those on disk."""
    found = []
    for name, text in made.items():
        file = FOLDER / name
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        found += difflib.unified_diff(
            old.splitlines(),
            text.splitlines(),
            f"docs/results/{name}",
            "what the files give",
            lineterm="",
            n=0,
        )
    found += [
        f"docs/results/{file.name} has no template"
        for file in sorted(FOLDER.glob("*.md"))
        if file.name not in made
    ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a committed page differs from what the files give",
    )
    add("--no-plots", action="store_true", help="write the pages alone")
    args = parser.parse_args()
    made = pages()
    if args.check:
        found = check(made)
        print("\n".join(found[:40]) or f"{len(made)} pages are up to date")
        return int(bool(found))
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"docs/results/{name}: {len(text.split()):,} words")
    if not args.no_plots:
        import _figures

        for file in _figures.draw_all(FOLDER):
            print(f"docs/results/{file.name}: {file.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

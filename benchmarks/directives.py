"""Figures and tables of stored scores, which the templates of pages name in double braces.

Every public method of :class:`Pages` is a directive, see ``results.py``.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Iterable, Sequence

import pandas as pd
from scipy.stats import friedmanchisquare
from scores import (
    DEFAULTS,
    ORACLE,
    OURS,
    PLAN,
    TUNED,
    Gaps,
    average,
    in_words,
    own_gaps,
    read,
    shifts,
    stored,
    summary_lines,
    warned_gaps,
)

from graphgym_srnc.report import statistics
from graphgym_srnc.report.paper import TABLES
from graphgym_srnc.report.statistics import holm, mean_std


def p_text(p: float) -> str:
    """A p-value for a table."""
    return "< 0.0001" if p < 0.0001 else "-" if math.isnan(p) else f"{p:.2g}"


def ends_text(ends: tuple[float, float]) -> str:
    """An interval for a table."""
    return "-" if math.isnan(ends[0]) else f"{ends[0]:+.1f} to {ends[1]:+.1f}"


def score_text(score: float) -> str:
    return "-" if math.isnan(score) else f"{score:.1f}"


def spread(scores: pd.Series) -> str:
    """Mean ± population standard deviation."""
    values = scores.dropna().tolist()
    return "{:.1f} ± {:.1f}".format(*mean_std(values)) if values else "-"


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table without the empty line at its end; columns of figures stand at the right."""
    rows = [list(map(str, line)) for line in lines]
    rule = [
        "---:" if all(re.match(r"[-+<\d]", line[i]) for line in rows) else "---"
        for i in range(len(head))
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows)).rstrip("\n")


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

    def synthetic_wins(self, row: str) -> str:
        """On how many kinds of synthetic graph SRNC+ is higher, and Wilcoxon's p over them."""
        gaps = shifts()["synthetic"].gaps(row)
        return f"higher on {gaps.wins} kinds, {self._p(gaps.p)}"

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
            lines.append([shift.name(row), shift.each(row), *cells])
        if single:
            return table(["method", "runs", *metrics.values()], lines)
        means = [f"mean {text}" for text in metrics.values()]
        return table(["method", "runs each", *shift.blocks.values(), *means], lines)

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
        if several:
            head += ["runs won", "p", "Holm"]
        head.append(shift.metrics["macro_recall"])
        return table([*head, *(["directions won", "p"] if by_direction else ["p", "Holm"])], lines)

    def equal_choice(self, ours: str, row: str) -> str:
        """Two rows that choose among variants per split, with paired tests."""
        lines = []
        for name, text in {"cora": "Cora", "citeseer": "CiteSeer", "sets": "both"}.items():
            shift = shifts()[name]
            gaps, recalls = (shift.gaps(row, m, ours=ours) for m in ("", "macro_recall"))
            cells = [f"{shift.mean(one):.1f}" for one in (ours, row)]
            cells += [f"{gaps.mean:+.1f}", ends_text(gaps.ends), gaps.wins, p_text(gaps.p)]
            lines.append([text, len(gaps), *cells, f"{recalls.mean:+.1f}", p_text(recalls.p)])
        names = [PLAN["names"][one] for one in (ours, row)]
        head = ["graph", "n (class sets)", *names, "difference", "95 % interval", "wins", "p"]
        return table([*head, "macro recall", "p"], lines)

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
                printed = TABLES["open_set"].find(PLAN["paper"].get(row, ""), graph).values()
                line.append(" / ".join(cells) if len(part) else "-")
                line.append(" / ".join(f"{score.mean:.1f}" for score in printed) or "-")
            lines.append(line)
        graphs = [text for graph in shift.blocks.values() for text in (graph, "paper")]
        return table(["method", *graphs], lines)

    def ranks(self, name: str) -> str:
        """Mean ranks, and Friedman's test if there are enough blocks for it."""
        shift = shifts()[name]
        runs = shift.runs[shift.runs.row != ORACLE]
        score = runs.groupby(["block", "split", "row"])[shift.metric].mean().unstack("row")
        common = statistics.common_blocks(score)
        ranks = statistics.mean_ranks(common)
        best = sorted(ranks, key=ranks.__getitem__)[:5]
        text = ", ".join(f"{shift.name(row).strip('*')} {ranks[row]:.1f}" for row in best)
        text = f"The best mean ranks of {len(ranks)} methods over {len(common)} runs: {text}."
        full = score.groupby("block").mean().dropna(axis=1)
        if len(full) < statistics.LEAST_BLOCKS:
            return text
        friedman = friedmanchisquare(*full.round(statistics.DECIMALS).to_numpy().T)
        return (
            f"{text} Friedman's test over the {len(full)} means of {full.shape[1]} methods:"
            f" {self._p(friedman.pvalue)}."
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
                cells = [f"{gaps.mean:+.1f}", gaps.wins, p_text(gaps.p), p_text(corrected)]
                line += cells if gaps else ["-"] * 4
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

    def warned(self) -> str:
        """How many runs of SRNC+ above and below the plain GCN of the same split have a warning."""
        gaps, lines = warned_gaps(), []
        counted = [(text, gaps[gaps.table == key]) for key, text in PLAN["warned"].items()]
        for text, part in [*counted, ("All", gaps)]:
            higher, lower = part[part.gap > 0], part[part.gap < -3]
            cells = [len(higher), (~higher.warned).sum(), len(lower), lower.warned.sum()]
            lines += [[text, len(part), *cells]] if len(part) else []
        head = ["runs of SRNC+", "n", "higher than the GCN", "of these without a warning"]
        return table([*head, "over 3 points lower", "of these with a warning"], lines)

    def worse(self, method: str, *metrics: str) -> str:
        """Number of runs where nothing supports adaptation that are over 3 points below the GCN,
        by each of the scores."""
        runs = pd.DataFrame(read("no-harm-runs")).set_index(["situation", "data", "seed"])
        ours, gcn = (runs[runs.method == one] for one in (method, "GCN"))
        gaps = [(ours[metric].astype(float) - gcn[metric].astype(float)) < -3 for metric in metrics]
        return str(pd.concat(gaps, axis=1).all(axis=1).sum() or "none")

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
        lines = pd.DataFrame(line for line in read("own-graphs") if line["method"] != "SRNC+")
        lines["gaps"] = [own_gaps(*pair) for pair in zip(lines.graph, lines.method)]
        p = lines.gaps.map(lambda gaps: gaps.p)
        corrected = p.groupby(lines.method).transform(lambda part: holm(part.tolist()))
        rows = []
        for line, holms in zip(lines.itertuples(), corrected):
            gaps = line.gaps
            cells = [line.graph, line.method, len(gaps), f"{gaps.mean:+.1f}", ends_text(gaps.ends)]
            rows.append([*cells, gaps.wins, p_text(gaps.p), p_text(holms), line.source])
        head = ["graph", "SRNC+ minus", "n (splits)", "Micro-F1", "95 % interval", "wins"]
        return table([*head, "p", "Holm", "source"], rows)

    def own_p(self, graph: str, rival: str) -> str:
        """Wilcoxon's p on one of the own graphs."""
        return self._p(own_gaps(graph, rival).p)

    def ablation(self) -> str:
        """What is lost without each component."""
        whole, *lines = read("ablations")
        kinds = [key for key in whole if f"{key} wins" in whole]
        rows = [["**SRNC+**", *(whole[kind] or "-" for kind in kinds), "-", "-"]]
        for line in lines:
            row = [line["without"]]
            for kind in kinds:
                row.append(f"{line[kind]} ({line[f'{kind} wins']})" if line[kind] else "-")
            rows.append([*row, *(p_text(float(line[p])) for p in ("p", "Holm"))])
        return table(["without", *kinds, "p", "Holm"], rows)

    def summary(self) -> str:
        """One line per shift: SRNC+ beside the strongest other method and a plain GCN."""
        rows = []
        for line in summary_lines():
            numbers = [f"{line.theirs:.1f}", f"{line.difference:+.1f}", ends_text(line.ends)]
            first = [line.label, line.n, f"{line.ours:.1f}", line.rival]
            rows.append([*first, *numbers, line.wins, p_text(line.p), f"{line.plain:.1f}"])
        head = ["shift", "n", "SRNC+", "strongest other method", "its score", "difference"]
        return table([*head, "95 % interval", "wins", "p", "plain GCN"], rows)

    def speed_runs(self) -> str:
        """Whole runs beside stock GraphGym: processor time, its ratio, and memory."""
        by = {(line["measure"], line["graph"], line["method"]): line for line in read("speed")}
        lines = []
        for measure, graph, method in by:
            if measure == "whole run, processor":
                time, memory = by[measure, graph, method], by["peak memory", graph, method]
                range_ = f"{time['ratio']} ({time['low']} to {time['high']})"
                cells = [f"{float(time[key]):.3g} s" for key in ("ours", "other")] + [range_]
                cells += [f"{int(memory[key]):,} MiB" for key in ("ours", "other")]
                graph = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}[graph]
                lines.append([graph, PLAN["names"][method].split(",")[0], *cells])
        head = ["graph", "method", "CPU time", "stock GraphGym", "ratio (range)", "memory"]
        return table([*head, "stock GraphGym"], lines)

    def own_scale(self) -> str:
        """What the commands for a graph of your own cost."""
        lines = []
        for line in read("own-scale"):
            words = line["command"].split()
            command = f"`{' '.join(words[: 2 if words[0] == 'data' else 1])}`"
            figures = (f"{int(line[key]):,}" for key in ("nodes", "CPU s", "clock s", "MiB"))
            lines.append([command, *figures])
        return table(["command", "nodes", "CPU s", "clock s", "MiB"], lines)

    def scale(self) -> str:
        """Cost of a run by the number of edges."""
        lines = []
        for line in read("scale"):
            first = [PLAN["names"][line["method"]].split(",")[0], line["training"]]
            cells = [f"{int(line['edges']):,}", line["CPU s"], f"{int(line['MiB']):,}"]
            lines.append(first + cells)
        return table(["method", "training", "edges", "CPU s", "MiB"], lines)

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

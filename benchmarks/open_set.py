"""The paper's open-set experiment on Cora, CiteSeer and PubMed, from tuning to the table.

    python benchmarks/open_set.py tune                     # up to 4 settings a method
    python benchmarks/open_set.py report --only 'cora:*'   # as configs_gym/paper/open_set/ say
    python benchmarks/open_set.py sets                     # all masked sets, SRNC+ and PGL
    python benchmarks/open_set.py clusters --out docs/results/data/clusters.csv   # 7 against 16
    python benchmarks/open_set.py table --csv docs/results/data/runs.csv   # means, tests

Tuning: split seeds 100 to 102, validation only; else split seeds 0 to 9, and twice as many as there
are sets of classes to mask for `sets`. Every command resumes: what is finished stays, whatever was
interrupted runs again. `results.py` makes docs/results/open-set.md of the file of scores.
GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import itertools
import math
from typing import Any

from _harness import (
    UNPROVEN,
    Cell,
    Results,
    Table,
    chosen,
    differences,
    known,
    leader,
    leading,
    main,
    markdown,
    marked,
    mean_ranks,
    pooled,
    provenance,
    save_csv,
    scores,
    serve,
    short,
    table_parser,
    tests,
    tuned,
    validation,
    wins,
)

from graphgym_srnc.io.settings import flatten
from graphgym_srnc.report.paper import OPEN_SET
from graphgym_srnc.report.statistics import mean, mean_std, p_value

GRAPHS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
TUNING_SEEDS, REPORTED_SEEDS = range(100, 103), range(10)

PPR = 10
"""Steps of personalised PageRank over the posterior, for the controls."""

# Row: its name in print, its config <graph>-<config>.yaml, what it changes there.
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "iid": ("GCN (IID)", "iid", {}),
    "erm": ("GCN + threshold", "erm", {}),
    "erm-ppr": ("GCN + threshold + PPR", "erm", {"erm.smoothing": PPR}),
    "max-logit": ("GCN + max logit", "erm", {"erm.score": "max_logit"}),
    "entropy": ("GCN + entropy", "erm", {"erm.score": "entropy"}),
    "energy": ("GCN + energy", "erm", {"erm.score": "energy", "erm.temperature": 1.0}),
    "gnnsafe": ("GCN + GNNSafe", "erm", {"erm.score": "gnnsafe", "erm.temperature": 1.0}),
    "nodesafe": ("GCN + NODESafe", "nodesafe", {}),
    "grasp": ("GCN + GRASP", "erm", {"erm.score": "grasp"}),
    "odin": (
        "GCN + ODIN",
        "erm",
        {"erm.score": "odin", "erm.temperature": 1000.0, "erm.perturbation": 0.0014},
    ),
    "openmax": ("GCN + OpenMax", "erm", {"erm.score": "openmax"}),
    "doc": ("gDOC", "doc", {}),
    "openwgl": ("OpenWGL", "openwgl", {}),
    "g2pxy": ("G2Pxy (variant)", "g2pxy", {}),
    "pgl-gcn": ("PGL+GCN", "pgl", {}),
    "pgl-members": ("PGL+GCN, 5 members", "pgl", {"pgl.members": 5}),
    "pgl-ppr": ("PGL+GCN + PPR", "pgl", {"pgl.smoothing": PPR}),
    "pgl-gat": ("PGL+GAT", "pgl-gat", {}),
    "pgl-sage": ("PGL+SAGE", "pgl-sage", {}),
    "pgl-sgc": ("PGL+SGC", "pgl-sgc", {}),
    "pgl-dgi": ("PGL+DGI", "pgl-dgi", {}),
    "srnc-letter": ("SRNC to the letter", "srnc-letter", {}),
    "srnc-no-phi": ("SRNC w.o. Φ", "srnc", {"srnc.pseudo_labels": "classifier"}),
    "srnc-no-source": ("SRNC w.o. L_Φ,θ,S", "srnc", {"srnc.source_regularizer": False}),
    "srnc-ep1": ("SRNC Ep.1", "srnc", {"train.max_episodes": 1}),
    "srnc": ("SRNC", "srnc", {}),
    "srnc-plus-no-density": (
        "SRNC+ without missing labels",
        "srnc-plus",
        {"srnc_plus.missing": 0.0},
    ),
    "srnc-plus-no-modularity": (
        "SRNC+ w.o. modularity",
        "srnc-plus",
        {"srnc_plus.modularity_weight": 0.0},
    ),
    "srnc-plus": ("SRNC+", "srnc-plus", {}),
}

# At most four settings for each. A row that is not here takes the values of its config as they are:
# PGL is tuned on GCN for all backbones, scores on the plain GNN share its steps and dropout, and
# ODIN and GRASP have their authors' values.
TUNE: dict[str, list[dict[str, Any]]] = {
    "iid": [{"iid.steps": steps, "gnn.dropout": p} for steps in (100, 200) for p in (0.5, 0.8)],
    "erm": [{"erm.steps": steps, "gnn.dropout": p} for steps in (100, 200) for p in (0.5, 0.8)],
    "energy": [{"erm.temperature": t} for t in (0.5, 1.0, 2.0, 5.0)],
    "gnnsafe": [{"erm.temperature": t} for t in (0.5, 1.0, 2.0, 5.0)],
    "nodesafe": [{"nodesafe.weight": weight} for weight in (0.1, 1.0, 5.0, 12.0)],
    "doc": [{"doc.steps": steps, "gnn.dropout": p} for steps in (100, 200) for p in (0.5, 0.8)],
    "openwgl": [
        {"openwgl.steps": steps, "gnn.dropout": p} for steps in (100, 200) for p in (0.5, 0.8)
    ],
    "g2pxy": [
        {"g2pxy.inter_weight": a, "g2pxy.external_weight": b}
        for a in (0.01, 1.0)
        for b in (0.01, 1.0)
    ],
    "pgl-gcn": [
        {"pgl.enlarging": a, "pgl.confident": b}
        for a, b in ((0.2, 0.2), (0.2, 0.4), (0.2, 0.6), (0.1, 0.4))
    ],
    "srnc-no-phi": [{"srnc.unknown_share": share} for share in (0.2, 0.3, 0.4, 0.5)],
    "srnc": [
        {"srnc.cluster_steps": t, "srnc.source_batch": b}
        for t, b in ((5, 32), (20, 32), (20, 80), (50, 32))
    ],
}
COMMON = ("energy", "gnnsafe", "srnc-plus")
"""Rows with one setting for all graphs."""

ALL_SETS = {"cora": range(70), "citeseer": range(40)}
"""Split seeds that mask each set of three classes twice, with other labels and other weights; tests
count a set once, by the mean of its two runs."""

SET_ROWS = (
    "srnc-plus",
    "pgl-gcn",
    "pgl-ppr",
    "pgl-members",
    "pgl-gat",
    "pgl-sage",
    "pgl-sgc",
    "pgl-dgi",
    "erm",
)
"""Rows that are tested on all of them: PGL with every backbone and with more computing."""

CLUSTERS, UNSEEN = (7, 16), (3, 1)

# The paper's gain by 7 instead of 16 clusters, by the number of unseen classes.
PAPER_CLUSTERS = {3: (1.62, 1.15), 1: (4.73, 3.79)}

METRICS = {"micro_f1": "Micro-F1", "macro_recall": "macro recall", "macro_f1": "Macro-F1"}
UNKNOWN = {
    "unknown_recall": "recall",
    "unknown_precision": "precision",
    "unknown_auroc": "AUROC",
    "unknown_aupr": "AUPR",
    "unknown_fpr95": "FPR95 (less is better)",
}


def names(row: str) -> str:
    return marked(row, ROWS[row][0])


def tuning_cell(graph: str, row: str, setting: dict[str, Any]) -> Cell:
    cell = reported_cell(graph, row)
    return cell._replace(
        folder="tune",
        name=f"{cell.name}-{short(setting)}",
        changes=cell.changes | setting,
        seeds=TUNING_SEEDS,
    )


def reported_cell(graph: str, row: str) -> Cell:
    _, config, changes = ROWS[row]
    cfg = f"paper/open_set/{graph}-{config}"
    return Cell("report", f"{graph}-{row}", cfg, changes, REPORTED_SEEDS)


def set_cells(args: argparse.Namespace) -> dict[tuple[str, str], Cell]:
    """By graph and row the runs on all masked sets, without those that ``--csv`` has."""
    cells, done = {}, known(args.csv, "open_set")
    for graph, row in itertools.product(ALL_SETS, SET_ROWS):
        missing = [seed for seed in ALL_SETS[graph] if seed not in done.get((graph, row), {})]
        if missing and chosen(args.only, graph, row):
            cells[graph, row] = reported_cell(graph, row)._replace(seeds=missing)
    return cells


def clusters_cell(clusters: int, unseen: int) -> Cell:
    changes = {"open_set.num_unseen": unseen}
    return Cell(
        "clusters",
        f"cora-C{clusters}-unseen{unseen}",
        f"paper/clusters/cora-{clusters}",
        changes,
        REPORTED_SEEDS,
    )


def tuning(args: argparse.Namespace) -> str:
    """The mean of each setting."""
    return (
        f"Micro-F1 on validation in %, mean over split seeds {TUNING_SEEDS[0]} to "
        f"{TUNING_SEEDS[-1]}; **bold** = best, † = what the config says now.\n\n"
        + tuned(args, {row: names(row) for row in ROWS}, GRAPHS, TUNE, tuning_cell, COMMON)
    )


def graph_results(graph: str, args: argparse.Namespace) -> tuple[dict[str, Results], list[str]]:
    """The results of all rows on one graph, and remarks about them."""
    rows: dict[str, Results] = {}
    notes = []
    earlier = known(args.csv, "open_set")
    for row in ROWS:
        if not chosen(args.only, graph, row):
            continue
        cell = reported_cell(graph, row)
        results, stale = cell.found(args)
        before = earlier.get((graph, row), {}).items()
        results = {seed: one for seed, one in before if seed in REPORTED_SEEDS} | results
        if stale:
            notes.append(f"{names(row)}: of another config than {cell.cfg} is now.")
        warned = sum(bool(result["warnings"]) for result in results.values())
        if warned:
            notes.append(f"{names(row)}: {warned} of {len(results)} runs gave a warning.")
        if results:
            rows[row] = results
    return rows, notes


def graph_table(graph: str, rows: dict[str, Results], args: argparse.Namespace) -> str:
    """The scores of all rows on one graph, and the tests of one of them against the others."""
    lines, unknown = [], []
    table = {row: {graph: results} for row, results in rows.items()}
    rows = {row: rows[row] for row in leading(table)}
    for row, results in rows.items():
        drop = differences(rows.get("iid", {}), results, "micro_f1")
        paper = OPEN_SET.find(ROWS[row][0], GRAPHS[graph]).values()
        setting = flatten(reported_cell(graph, row).config(args))
        keys = [*TUNE.get(row, TUNE.get(ROWS[row][1], [{}]))[0], "gnn.dim_inner"]
        lines.append(
            [
                names(row),
                len(results),
                *(scores(results, metric) for metric in METRICS),
                f"{mean(drop):.1f}" if drop and row != "iid" else "-",
                " / ".join(f"{score.mean:.1f}" for score in paper) or "-",
                f"{mean(result['seconds'] for result in results.values()):.1f}",
                ", ".join(f"{key.rpartition('.')[2]} {setting[key]}" for key in keys),
            ]
        )
        if row != "iid":
            unknown.append([names(row), *(scores(results, metric) for metric in UNKNOWN)])
    head = ["method", "n", *METRICS.values(), "ΔF1", "paper Micro / Macro", "s a run", "setting"]
    out = f"## {GRAPHS[graph]}\n\n" + markdown(head, lines)
    if unknown:
        out += "The unknown class:\n\n" + markdown(["method", *UNKNOWN.values()], unknown)
    ours = args.test or leader(table)
    return out + (paired(rows, ours) if ours in rows else "")


def paired(rows: dict[str, Results], ours: str) -> str:
    """Tests of one row against all others but the oracle, which knows the masked classes."""
    others = {
        row: differences(rows[ours], results, "micro_f1")
        for row, results in rows.items()
        if row not in (ours, "iid")
    }
    others = {row: values for row, values in others.items() if values}
    if not others:
        return ""
    wilcoxon, t = tests(others), tests(others, "t")
    lines = []
    for row, values in others.items():
        recall = mean(differences(rows[ours], rows[row], "macro_recall"))
        lines.append(
            [
                names(row),
                len(values),
                f"{mean(values):+.1f}",
                wins(values),
                *wilcoxon[row],
                *t[row],
                f"{recall:+.1f}",
            ]
        )
    head = [
        f"{names(ours)} against",
        "n",
        "Micro-F1",
        "wins",
        "p Wilcoxon",
        "Holm",
        "p t-test",
        "Holm",
        "macro recall",
    ]
    return markdown(head, lines)


def all_graphs(table: Table, ours: str) -> str:
    """Ranks and tests over all graphs at once."""
    ranks, friedman = mean_ranks({row: found for row, found in table.items() if row != "iid"})
    if not ranks:
        return ""
    lines = [[names(row), f"{ranks[row]:.1f}"] for row in sorted(ranks, key=ranks.get)]
    out = "## All graphs\n\n" + markdown(["method", "mean rank"], lines) + f"{friedman}\n\n"
    return out + (pooled(table, ours, names) if ours in table else "")


def tables(args: argparse.Namespace) -> str:
    """All graphs, and how the numbers came about."""
    table: Table = {}
    text, every = "", []
    for graph in GRAPHS:
        rows, notes = graph_results(graph, args)
        for row, results in rows.items():
            table.setdefault(row, {})[graph] = results
            every += results.values()
        if rows:
            text += graph_table(graph, rows, args) + "\n".join(notes) + "\n\n" * bool(notes)
    if not every:
        return "no results yet\n"
    table = {row: table[row] for row in ROWS if row in table}
    if args.csv:
        save_csv(args.csv, "open_set", table)
    return (
        text
        + all_graphs(table, args.test or leader(table))
        + (
            "Test scores in %, mean ± population standard deviation over split seeds"
            f" {REPORTED_SEEDS[0]} to {REPORTED_SEEDS[-1]}; macro recall is what the paper calls"
            " Macro-F1. ΔF1: Micro-F1 of GCN (IID) less the row's, on the same splits. AUROC, AUPR"
            " (positive: unknown) and FPR95 (unknown nodes let through when 95 % of the known ones are)"  # noqa: E501
            " do not depend on the threshold. Tests: two-sided, on the same splits, Holm's correction"  # noqa: E501
            f" over the rows of a graph. {UNPROVEN}\n\n"
            f"Tuning: at most {max(map(len, TUNE.values()))} settings a method and graph, by Micro-F1"  # noqa: E501
            f" on validation alone, split seeds {TUNING_SEEDS[0]} to {TUNING_SEEDS[-1]};"
            f" {', '.join(map(names, COMMON))}: one setting for all graphs; SRNC Ep.1 and w.o."
            " L_Φ,θ,S: SRNC's values; rows with or without PPR: those of the row they vary.\n\n"
            + provenance(every)
        )
    )


def sets_table(args: argparse.Namespace) -> str:
    """SRNC+ against PGL, each set of masked classes once."""
    table: Table = {}
    text, earlier, cells = "", known(args.csv, "open_set"), set_cells(args)
    for graph, seeds in ALL_SETS.items():
        for row in SET_ROWS:
            found = earlier.get((graph, row), {})
            if (graph, row) in cells:
                found = found | cells[graph, row].results(args)
            if found.keys() >= set(seeds):
                table.setdefault(row, {})[graph] = {seed: found[seed] for seed in seeds}
        rows = {row: table[row][graph] for row in leading(table) if graph in table[row]}
        if "srnc-plus" not in rows:
            continue
        lines = [
            [
                names(row),
                len(results),
                *(
                    scores(results, metric)
                    for metric in ("micro_f1", "macro_recall", "unknown_auroc")
                ),
            ]
            for row, results in rows.items()
        ]
        head = ["method", "runs", "Micro-F1", "macro recall", "AUROC"]
        text += (
            f"### {GRAPHS[graph]}, all masked sets\n\n"
            + markdown(head, lines)
            + paired(rows, "srnc-plus")
        )
    if not text:
        return "no results yet\n"
    if args.csv:
        save_csv(args.csv, "open_set", table)
    every = [
        result
        for blocks in table.values()
        for results in blocks.values()
        for result in results.values()
    ]
    return (
        text
        + "### Both graphs, all masked sets\n\n"
        + pooled(table, "srnc-plus", names)
        + provenance(every)
    )


def clusters_table(args: argparse.Namespace) -> str:
    """Few clusters against many, beside the paper's gain."""
    runs = {
        (c, unseen): clusters_cell(c, unseen).results(args) for unseen in UNSEEN for c in CLUSTERS
    }
    lines = []
    for (c, unseen), results in runs.items():
        used = mean(
            result["history"][result["selected"]]["losses"]["used_clusters"]
            for result in results.values()
        )
        lines.append(
            [
                unseen,
                c,
                len(results),
                *(scores(results, metric) for metric in METRICS),
                f"{used:.1f}",
                f"{validation(results):.1f}",
            ]
        )
    head = ["unseen", "clusters", "n", *METRICS.values(), "clusters in use", "validation"]
    out = markdown(head, lines)

    few, many = min(CLUSTERS), max(CLUSTERS)
    lines = []
    for unseen in UNSEEN:
        for metric, paper in zip(("micro_f1", "macro_recall"), PAPER_CLUSTERS[unseen]):
            values = differences(runs[few, unseen], runs[many, unseen], metric)
            n = len(values)
            error = mean_std(values)[1] / math.sqrt(n - 1) if n > 1 else math.nan
            p = " / ".join(f"{p_value(values, test):.2g}" for test in ("wilcoxon", "t"))
            lines.append(
                [
                    unseen,
                    METRICS[metric],
                    n,
                    f"{mean(values):+.2f} ± {error:.2f}",
                    wins(values),
                    p,
                    f"{paper:+.2f}",
                ]
            )
    head = ["unseen", "score", "n", "difference", "wins", "p Wilcoxon / t-test", "paper"]
    return out + (
        f"{few} less {many} clusters on the same splits, ± standard error:\n\n"
        + markdown(head, lines)
    )


def begin() -> int:
    commands = {
        "tune": tuning,
        "report": tables,
        "sets": sets_table,
        "clusters": clusters_table,
        "table": tables,
    }
    args = table_parser(__doc__, list(commands), ROWS, "results/open_set").parse_args()
    pairs = [(graph, row) for graph in GRAPHS for row in ROWS if chosen(args.only, graph, row)]
    cells = {
        "tune": [
            tuning_cell(graph, row, setting)
            for graph, row in pairs
            for setting in TUNE.get(row, [])
        ],
        "report": [reported_cell(graph, row) for graph, row in pairs],
        "sets": [*set_cells(args).values()],
        "clusters": [clusters_cell(c, unseen) for unseen in UNSEEN for c in CLUSTERS],
    }
    return serve(args, cells.get(args.command, []), commands[args.command])


if __name__ == "__main__":
    main(begin)

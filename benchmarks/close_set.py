"""Close-set shift between citation networks and over time, from tuning to the table.

    python benchmarks/close_set.py tune                      # a few settings a method
    python benchmarks/close_set.py report citation --jobs 2  # as configs_gym/paper/close_set/ say
    python benchmarks/close_set.py report arxiv_like --only 'p1:*'
    python benchmarks/close_set.py table --csv docs/results/data/runs.csv   # means, ranks, tests

Tuning: split seeds 100 to 102, validation only; else split seeds 0 to 9. Citation: six directions
between a = ACMv9, c = Citationv1 and d = DBLPv7; "ac" trains on a and predicts all of c. No target
label takes part in training, selection or tuning there. arxiv_like: three periods of a synthetic
growing graph. Every command resumes: what is finished stays, whatever was interrupted runs again.
`results.py` makes pages of docs/results of the file of scores. GRAPHGYM_SRNC_DATA names the data
folder.
"""

from __future__ import annotations

import argparse
from typing import Any

from _harness import (
    UNPROVEN,
    Cell,
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
    peak_memory,
    pooled,
    provenance,
    save_csv,
    scores,
    serve,
    short,
    table_parser,
    tuned,
    validation,
)

from graphgym_srnc.report.paper import CLOSE_SET
from graphgym_srnc.report.statistics import mean

NETWORKS = {"a": "acmv9", "c": "citationv1", "d": "dblpv7"}
TABLES: dict[str, dict[str, dict[str, Any]]] = {
    "citation": {
        pair: {"cross_graph.source": NETWORKS[pair[0]], "cross_graph.target": NETWORKS[pair[1]]}
        for pair in ("ac", "ca", "ad", "da", "cd", "dc")
    },
    "arxiv_like": {f"p{period}": {"temporal.period": period} for period in (1, 2, 3)},
}
TABLES["both"] = {
    f"{pair}-unseen": TABLES["citation"][pair] | {"cross_graph.num_unseen": 1}
    for pair in ("ca", "ad", "dc")
}
TABLES["localized"] = {
    name.lower(): {
        "dataset.format": "localized",
        "dataset.name": name,
        "train.selection": "target_val",
    }
    for name in ("Cora", "CiteSeer", "PubMed")
}
OCNNC = {"c": "citation-v1", "d": "dblp-v4", "a": "acm-v8"}
TABLES["ocnnc"] = {
    f"{pair}-ocnnc": {"ocnnc.source": OCNNC[pair[0]], "ocnnc.target": OCNNC[pair[1]]}
    for pair in ("cd", "ca", "dc", "da", "ac", "ad")
}
"""Blocks of each table, and what they change in its configs."""

CITATION = "paper/close_set/citation"
CONFIGS = {
    "citation": CITATION,
    "both": CITATION,
    "localized": CITATION,
    "ocnnc": "paper/universal",
    "arxiv_like": "close_set/arxiv_like",
}
"""Folder of configs that each table uses."""

METRICS = {"ocnnc": ("hs", "macro_recall", "known_recall", "unknown_recall", "unknown_auroc")}
"""Scores of a table, the one that ranks first, where they are not Micro-F1 and macro recall."""

METRIC_NAMES = {
    "micro_f1": "Micro-F1",
    "macro_recall": "macro recall",
    "hs": "HS",
    "known_recall": "OS*",
    "unknown_recall": "UNK",
    "unknown_auroc": "AUROC",
}

TITLES = {
    "citation": "Citation networks",
    "arxiv_like": "Papers over time, synthetic",
    "both": "Citation networks with an unseen class",
    "localized": "Localized training data",
    "ocnnc": "Open-set cross-network classification",
}
BLOCKS = (
    {pair: f"{pair[0]}→{pair[1]}" for pair in TABLES["citation"]}
    | {"p1": "2014-16", "p2": "2016-18", "p3": "2018-20"}
    | {block: f"{block[0]}→{block[1]}" for table in ("both", "ocnnc") for block in TABLES[table]}
    | {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
)
TUNING_SEEDS, REPORTED_SEEDS = range(100, 103), range(10)

PGL = {"train.mode": "pgl", "pgl.confident": 0.4}
PPR, DGI = 10, {"gnn.layer_type": "dgi"}
CORRECTED = {"erm.smoothing": PPR, "erm.correction": "mean", "erm.correction_power": 0.5}
SOURCE_FIRST = {
    "srnc.cluster_init": "auto",
    "srnc.cluster_lr": 0.003,
    "srnc.collapse": 0.1,
    "srnc.source_batch": 0,
    "srnc.cluster_steps": 30,
    "srnc.steps": 30,
}

# Row: its name in print, its config, what it changes there.
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "iid": ("GCN (IID)", "iid", {}),
    "erm": ("GCN", "erm", {}),
    "erm-ppr": ("GCN + PPR", "erm", {"erm.smoothing": PPR}),
    "erm-corrected": ("GCN + PPR + correction", "erm-corrected", {}),
    "dann": ("GCN-DANN", "dann", {}),
    "grade": ("GRADE", "grade", {}),
    "cmd": ("GCN-CMD", "cmd", {}),
    "cmd-ppr": ("GCN-CMD + PPR", "cmd", {"cmd.smoothing": PPR}),
    "cmd-corrected": ("GCN-CMD + PPR + correction", "cmd-corrected", {}),
    "mmd": ("GCN-MMD", "mmd", {}),
    "coral": ("GCN-CORAL", "coral", {}),
    "srgnn": ("GCN-SRGNN", "srgnn", {}),
    "strurw": ("StruRW", "strurw", {}),
    "deep-gcn-10": ("GCN, 10 hops", "deep-gcn-10", {}),
    "deep-gcn-15": ("GCN, 15 hops", "deep-gcn-15", {}),
    "a2gnn": ("A2GNN", "a2gnn", {}),
    "adalign": ("ADAlign", "adalign", {}),
    "udagcn": ("UDAGCN", "udagcn", {}),
    "pairalign": ("Pair-Align", "pairalign", {}),
    "dgi": ("DGI", "erm", DGI),
    "dgi-dann": ("DGI-DANN", "dann", DGI),
    "dgi-cmd": ("DGI-CMD", "cmd", DGI),
    "dgi-srgnn": ("DGI-SRGNN", "srgnn", DGI),
    "srnc-paper": ("SRNC, the paper's order", "srnc-paper", {}),
    "srnc-no-phi": (
        "SRNC w.o. Φ",
        "srnc-paper",
        SOURCE_FIRST | {"srnc.pseudo_labels": "classifier"},
    ),
    "srnc-ep1": ("SRNC Ep.1", "srnc-paper", SOURCE_FIRST | {"train.max_episodes": 1}),
    "srnc": ("SRNC, source first", "srnc-paper", SOURCE_FIRST),
    "srnc-plus": ("SRNC+", "srnc-plus", {}),
    "srnc-plus-no-ppr": ("SRNC+ without PPR", "srnc-plus", {"srnc_plus.smoothing": 0}),
    "srnc-plus-no-correction": (
        "SRNC+ without correction",
        "srnc-plus",
        {"srnc_plus.correction": "none"},
    ),
    "srnc-plus-no-modularity": (
        "SRNC+ w.o. modularity",
        "srnc-plus",
        {"srnc_plus.modularity_weight": 0.0},
    ),
}
ONLY = {
    "both": {
        "iid": (),
        "erm": (),
        "erm-ppr": (),
        "pgl": ("PGL+GCN", "erm", PGL),
        "pgl-ppr": ("PGL+GCN + PPR", "erm", PGL | {"pgl.smoothing": PPR}),
        "srnc-plus": (),
        "srnc-plus-source": ("SRNC+, on the source alone", "srnc-plus", {"train.max_episodes": 1}),
    },
    "localized": dict.fromkeys(
        (
            "iid",
            "erm",
            "erm-ppr",
            "erm-corrected",
            "dann",
            "cmd",
            "cmd-ppr",
            "cmd-corrected",
            "srgnn",
            "srnc",
            "srnc-plus",
        ),
        (),
    ),
    "ocnnc": {
        "erm": (),
        "erm-ppr": (),
        "erm-corrected": ("GCN + PPR + correction", "erm", CORRECTED),
        "erm-share": ("GCN, cut by share", "erm", {"erm.cut": "share"}),
        "gnnsafe": ("GCN + GNNSafe", "gnnsafe", {}),
        "nodesafe": ("NODESafe", "nodesafe", {}),
        "pgl": ("PGL+GCN", "pgl", {}),
        "dann": (),
        "uaga": ("UAGA", "uaga", {}),
        "srnc-plus": (),
    },
}
"""Tables of fewer rows, and rows that only they have."""

OTHER_BACKBONES = {
    f"{row}-{short}": (f"{ROWS[row][0]}, {short.upper()}", ROWS[row][1], {"gnn.layer_type": layer})
    for row in ("erm", "cmd", "srnc-plus")
    for short, layer in {"sage": "sageconv", "gat": "gatconv", "sgc": "sgconv"}.items()
}
"""Rows of ``--backbones``."""

# A few settings for each. A row that is not here takes the values of its config as they are:
# the plain GNN and the oracle have nothing of their own to tune, and variants of a method take its
# values.
TUNE: dict[str, list[dict[str, Any]]] = {
    "erm-corrected": [
        {"erm.smoothing": steps, "erm.correction_power": power}
        for steps in (1, 3, 10)
        for power in (0.25, 0.5, 0.75, 1.0)
    ],
    "cmd-corrected": [
        {"cmd.smoothing": steps, "cmd.correction_power": power}
        for steps in (1, 3, 10)
        for power in (0.25, 0.5, 0.75, 1.0)
    ],
    "dann": [{"dann.weight": weight} for weight in (0.01, 0.1, 1.0)],
    "grade": [{"grade.weight": weight} for weight in (0.0005, 0.005, 0.05)],
    "cmd": [{"cmd.weight": weight} for weight in (0.1, 1.0, 5.0)],
    "mmd": [{"mmd.weight": weight} for weight in (0.1, 1.0)],
    "coral": [{"coral.weight": weight} for weight in (1.0, 100.0, 10000.0)],
    "srgnn": [{"srgnn.weight": weight} for weight in (0.1, 1.0)],
    "strurw": [{"strurw.strength": strength} for strength in (0.4, 0.8)],
    "a2gnn": [
        {"a2gnn.weight": weight, "a2gnn.target_hops": hops}
        for weight in (5.0, 25.0)
        for hops in (10, 30)
    ],
}

OWN_VALUES = {
    ("cd-ocnnc", "uaga"): {"gnn.dropout": 0.4},
    ("ac-ocnnc", "uaga"): {"gnn.dropout": 0.6},
    ("da-ocnnc", "uaga"): {"optim.weight_decay": 1e-5},
    ("ad-ocnnc", "uaga"): {"optim.weight_decay": 1e-5},
}
"""What the authors of a row change on a block."""

PAPER_ROWS = {"srnc-paper": "SRNC"}
"""Rows that the paper prints under another name than ours."""


def rows_of(table: str) -> dict[str, tuple[str, str, dict[str, Any]]]:
    if table not in ONLY:
        return ROWS
    return {row: entry or ROWS[row] for row, entry in ONLY[table].items()}


def tuning_cell(block: str, row: str, setting: dict[str, Any]) -> Cell:
    cell = reported_cell(block, row)
    return cell._replace(
        folder="tune",
        name=f"{cell.name}-{short(setting)}",
        changes=cell.changes | setting,
        seeds=TUNING_SEEDS,
    )


def reported_cell(block: str, row: str) -> Cell:
    table = next(table for table, blocks in TABLES.items() if block in blocks)
    _, config, changes = rows_of(table)[row]
    cfg = f"{CONFIGS[table]}/{config}"
    changes = TABLES[table][block] | changes | OWN_VALUES.get((block, row), {})
    seeds = REPORTED_SEEDS[:5] if table == "ocnnc" else REPORTED_SEEDS
    return Cell("report", f"{block}-{row}", cfg, changes, seeds)


def tuning(args: argparse.Namespace) -> str:
    """The mean of each setting over the blocks of a table; a method has one setting for all of
    them."""
    out = ""
    for table in args.tables:
        by = "held-out source nodes" if table == "citation" else "papers of 2011 to 2014"
        out += (
            f"## {TITLES[table]}\n\nMicro-F1 on {by} in %, mean over split seeds "
            f"{TUNING_SEEDS[0]} to {TUNING_SEEDS[-1]}; **bold** = best, † = what the config"
            " says now.\n\n"
        )
        blocks = {block: BLOCKS[block] for block in TABLES[table]}
        out += tuned(args, {row: names(row) for row in ROWS}, blocks, TUNE, tuning_cell, list(TUNE))
    return out


def names(row: str) -> str:
    return marked(row, next(rows_of(table)[row][0] for table in TABLES if row in rows_of(table)))


def paper_scores(row: str) -> str:
    """Micro-F1 by period in Table 2 of the paper, on the real ogbn-arxiv."""
    return (
        " / ".join(
            f"{score.mean:.1f}"
            for column in CLOSE_SET.columns
            for score in CLOSE_SET.find(row, column).values()
        )
        or "-"
    )


VALIDATION = {
    "citation": "The last episode of every row; target labels are read for the test only, and by"
    " the oracle. Validation, which chose settings: held-out source nodes.",
    "both": "One class is masked, drawn from the split seed. Validation: held-out source nodes,"
    " those of the masked class among them; no label of the target is read. PGL has the setting it"
    " has on Cora but for the width.",
    "ocnnc": "The protocol of UAGA: classes 5 to 8 are deleted from the source and are the unknown"
    " class of the target; all source nodes are labelled, no label of the target is used, the last"
    " episode counts. HS: harmonic mean of the accuracy on known classes and of UNK, the recall of"
    " the unknown one; macro recall is OS, over known classes alone OS*.",
    "localized": "The 20 training nodes of a class lie around one random node of it; the data set's"
    " own validation and test nodes. Settings are those for citation networks, untouched.",
    "arxiv_like": "Validation: papers of 2011 to 2014, which choose the episode of every row, as in"
    " the paper; the oracle's are of the period. The graph is synthetic: years and classes are"
    " those of an eighth of ogbn-arxiv's papers, features and citations are made. The paper's"
    " numbers are of the real graph and hidden 256: compare the order of the rows, not their"
    " height. The paper's SRNC stands beside the row in its order; Ep.1 and w.o. Φ here vary the"
    " source-first one.",
}
"""Which nodes choose settings and episodes, by table."""


def find_runs(name: str, args: argparse.Namespace) -> tuple[Table, list[str]]:
    """The runs of a table, and remarks about them."""
    table: Table = {}
    notes = []
    earlier = known(args.csv, name)
    for row in rows_of(name):
        any_stale = False
        for block in TABLES[name]:
            if chosen(args.only, block, row):
                results, stale = reported_cell(block, row).found(args)
                results = earlier.get((block, row), {}) | results
                any_stale |= stale
                if results:
                    table.setdefault(row, {})[block] = results
        if any_stale:
            notes.append(
                f"{names(row)}: some runs are of another config than"
                f" {rows_of(name)[row][1]} is now."
            )
    for row, found in table.items():
        runs = [result for results in found.values() for result in results.values()]
        warned = sum(bool(result["warnings"]) for result in runs)
        if warned:
            notes.append(f"{names(row)}: {warned} of {len(runs)} runs gave a warning.")
    return table, notes


def score_lines(table: Table, blocks: list[str], metric: str) -> list[list[Any]]:
    """Name, number of runs, score on each block and mean score of each row."""
    lines = []
    for row, found in table.items():
        means = [
            100 * mean(result["test"][metric] for result in found[block].values())
            for block in blocks
            if block in found
        ]
        lines.append(
            [
                names(row),
                min(map(len, found.values())),
                *(scores(found.get(block, {}), metric) for block in blocks),
                f"{mean(means):.1f}" if len(means) == len(blocks) else "-",
            ]
        )
    return lines


def table_text(name: str, args: argparse.Namespace) -> tuple[str, list[dict[str, Any]]]:
    """One table with its tests, and the results it is made of."""
    table, notes = find_runs(name, args)
    blocks = [block for block in TABLES[name] if any(block in found for found in table.values())]
    if not blocks:
        return "", []
    if args.csv:
        save_csv(args.csv, name, table)

    metric, *others = METRICS.get(name, ("micro_f1", "macro_recall"))
    table = {row: table[row] for row in leading(table, metric)}
    ranks, friedman = mean_ranks(
        {row: found for row, found in table.items() if row != "iid"}, metric
    )
    every, lines = [], score_lines(table, blocks, metric)
    for (row, found), line in zip(table.items(), lines):
        runs = [result for results in found.values() for result in results.values()]
        every += runs
        oracle = table.get("iid", {}) if row != "iid" else {}
        drop = [
            value
            for block in found
            for value in differences(oracle.get(block, {}), found[block], metric)
        ]
        line += [
            f"{ranks[row]:.1f}" if row in ranks else "-",
            f"{mean(drop):.1f}" if drop else "-",
            f"{mean(map(validation, found.values())):.1f}",
            f"{mean(result['seconds'] for result in runs):.1f}",
            peak_memory(runs),
        ]
        if name == "arxiv_like":
            line.append(paper_scores(PAPER_ROWS.get(row, rows_of(name)[row][0])))
    head = ["method", "n", *(BLOCKS[block] for block in blocks), "mean"]
    more = ["mean rank", "ΔF1", "validation", "s a run", "peak MiB"]
    more += ["paper, real graph"] * (name == "arxiv_like")
    text = f"## {TITLES[name]}\n\n### {METRIC_NAMES[metric]}\n\n"
    text += markdown([*head, *more], lines)
    for other in others:
        scored = score_lines(table, blocks, other)
        text += f"### {METRIC_NAMES[other]}\n\n{markdown(head, scored)}"
    text += f"{friedman}\n\n" * bool(friedman)
    ours = args.test or leader(table, metric)
    text += pooled(table, ours, names, metric) if ours in table else ""
    return text + "\n".join([*notes, VALIDATION[name]]) + "\n\n", every


def text(args: argparse.Namespace) -> str:
    """All tables, and how the numbers came about."""
    parts = [table_text(name, args) for name in args.tables]
    results = [result for _, found in parts for result in found]
    if not results:
        return "no results yet\n"
    return "".join(part for part, _ in parts) + (
        "Test scores in %, mean ± population standard deviation over split seeds"
        f" {REPORTED_SEEDS[0]} to {REPORTED_SEEDS[-1]}; macro recall is what the paper calls"
        " Macro-F1. ΔF1: Micro-F1 of GCN (IID) less the row's on the same splits; the oracle is"
        " scored on target nodes that it does not train on. PPR: the predicted posterior after ten"
        f" steps of personalised PageRank. {UNPROVEN}\n\n"
        f"Tuning: at most {max(map(len, TUNE.values()))} settings a method, one for all blocks of a"
        f" table, by validation alone, split seeds {TUNING_SEEDS[0]} to {TUNING_SEEDS[-1]}.\n\n"
        + provenance(results)
    )


def begin() -> int:
    options = table_parser(__doc__, ("tune", "report", "table"), ROWS, "results/close_set")
    options.add_argument("tables", nargs="?", choices=list(TABLES), help="default: all")
    options.add_argument(
        "--backbones", action="store_true", help="also three rows with SAGE, GAT and SGC"
    )
    args = options.parse_args()
    if args.backbones:
        ROWS.update(OTHER_BACKBONES)
    if args.command == "tune" and args.tables in ONLY:
        options.error(f"{args.tables} takes the settings of {CONFIGS[args.tables]}")
    tables = [name for name in TABLES if args.command != "tune" or name not in ONLY]
    args.tables = [args.tables] if args.tables else tables
    pairs = [
        (block, row)
        for name in args.tables
        for row in rows_of(name)
        for block in TABLES[name]
        if chosen(args.only, block, row)
    ]
    cells = {
        "tune": [
            tuning_cell(block, row, setting)
            for block, row in pairs
            for setting in TUNE.get(row, [])
        ],
        "report": [reported_cell(block, row) for block, row in pairs],
    }
    return serve(args, cells.get(args.command, []), tuning if args.command == "tune" else text)


if __name__ == "__main__":
    main(begin)

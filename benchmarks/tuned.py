"""Tables with every row tuned by `graphgym-srnc tune`: equal trials, one selector, equal rights.

    python benchmarks/tuned.py --csv docs/results/data/runs.csv   # all tables
    python benchmarks/tuned.py cora --only 'erm,pgl-*' --trials 40
    python benchmarks/tuned.py --no-run                     # the tables of what is there

Each row starts from the config of the hand-set tables and is tuned on split seeds 100 and on, by
validation alone; then the chosen setting is run on split seeds 0 and on, and tested in pairs. Every
command resumes. `results.py` makes docs/results/tuned.md of the file of scores. GRAPHGYM_SRNC_DATA
names the data folder.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import close_set
import open_set
from _harness import (
    UNPROVEN,
    Cell,
    Results,
    Table,
    differences,
    known,
    leading,
    main,
    markdown,
    marked,
    parser,
    provenance,
    publish,
    run,
    save_csv,
    tests,
    wins,
)

from graphgym_srnc.cli.main import main as command
from graphgym_srnc.io import atomic
from graphgym_srnc.report.statistics import mean, mean_std

STUDIES = "tuned.csv"
"""Beside the file of all scores, what the studies found."""


class Plan(NamedTuple):
    """A table.

    Args:
        title: in print.
        rows: name in print, config and changes of each row, in the order in which they are made.
        cfg: the config of a row, with a place for its name.
        blocks: settings of each task whose scores are reported.
        tuned_on: the blocks on which settings are chosen.
        tuning: seeds on which they are chosen.
        reported: seeds of the reported runs.
        selection: what chooses episodes and settings of all rows.
        hand: the hand-set table with the same rows and blocks.
        drawn: whether splits are draws of labels, so that each run of a block counts in tests;
            else, where there are several blocks, their means do.
        metric: the score that ranks the rows and is tested.
    """

    title: str
    rows: dict[str, tuple[str, str, dict[str, Any]]]
    cfg: str
    blocks: dict[str, dict[str, Any]]
    tuned_on: tuple[str, ...]
    tuning: range
    reported: range
    selection: str
    hand: str
    drawn: bool = True
    metric: str = "micro_f1"


OPEN = (
    "erm",
    "gnnsafe",
    "pgl-gcn",
    "srnc-plus",
    "nodesafe",
    "grasp",
    "doc",
    "openmax",
    "g2pxy",
    "openwgl",
    "srnc",
)
CLOSE = ("erm", "dann", "grade", "cmd", "srnc-plus", "pairalign", "a2gnn", "adalign", "udagcn")
LOCALIZED = ("erm", "cmd", "dann", "srgnn", "srnc", "srnc-plus")
OVER_TIME = ("erm", "cmd", "dann", "strurw", "pairalign", "srnc-plus")
UNSEEN = ("erm", "pgl", "srnc-plus")
OCNNC = ("erm", "gnnsafe", "nodesafe", "pgl", "dann", "srnc-plus", "uaga")


def _open(graph: str) -> Plan:
    return Plan(
        f"{open_set.GRAPHS[graph]}, open-set",
        {row: open_set.ROWS[row] for row in OPEN},
        f"paper/open_set/{graph}-{{}}",
        {graph: {}},
        (graph,),
        range(100, 102),
        range(10),
        "target_val",
        "open_set",
    )


def _close(
    table: str,
    rows: tuple[str, ...],
    tuned_on: tuple[str, ...],
    selection: str = "target_modularity",
    **rest: Any,
) -> Plan:
    # The selector is the plan's: a block says what is learnt, not how.
    blocks = {
        block: {key: value for key, value in changes.items() if key != "train.selection"}
        for block, changes in close_set.TABLES[table].items()
    }
    entries = close_set.rows_of(table)
    return Plan(
        close_set.TITLES[table],
        {row: entries[row] for row in rows},
        f"{close_set.CONFIGS[table]}/{{}}",
        blocks,
        tuned_on,
        range(100, 101),
        range(5),
        selection,
        table,
        **rest,
    )


TABLES = {
    **{graph: _open(graph) for graph in ("cora", "citeseer", "pubmed")},
    "citation": _close("citation", CLOSE, ("ca", "dc"), drawn=False),
    "localized": _close("localized", LOCALIZED, ("cora", "citeseer"), "target_val"),
    "arxiv_like": _close("arxiv_like", OVER_TIME, ("p1", "p3"), "target_val"),
    "both": _close("both", UNSEEN, ("ca-unseen", "dc-unseen")),
    "ocnnc": _close("ocnnc", OCNNC, ("ca-ocnnc", "dc-ocnnc"), drawn=False, metric="hs"),
}


def words(setting: dict[str, Any]) -> list[str]:
    return [str(word) for pair in setting.items() for word in pair]


def study(table: str, row: str, args: argparse.Namespace) -> Path:
    return args.out_dir / "tune" / f"{table}-{row}"


class Study(NamedTuple):
    """What a search has found.

    Args:
        trials: how many there were.
        seconds: of all of them together.
        default, chosen: the selector's scores of the config, empty if it has none, and of what was
            chosen.
        changed: what that changes, in print.
    """

    trials: int
    seconds: float
    default: str
    chosen: str
    changed: str


def record(table: str, row: str, args: argparse.Namespace) -> Study | None:
    """What the study of a row has found, None before it is over."""
    file = study(table, row, args) / "tuned.json"
    if not file.exists():
        return None
    one = next(iter(json.loads(file.read_text(encoding="utf-8"))["methods"].values()))
    before, trials = one["default"], one["trials"]
    changed = ", ".join(f"{key} {new}" for key, (_, new) in one["changed"].items())
    return Study(
        len(trials),
        sum(trial["seconds"] for trial in trials),
        "" if before is None else f"{100 * before:.1f}",
        f"{100 * one['validation']:.1f}",
        changed or "as it was",
    )


def studies(args: argparse.Namespace) -> dict[tuple[str, str], Study]:
    """Studies of all rows: those of ``--out-dir``, else those of a file beside ``--csv``."""
    found: dict[tuple[str, str], Study] = {}
    if args.csv and args.csv.with_name(STUDIES).exists():
        with open(args.csv.with_name(STUDIES), newline="", encoding="utf-8") as lines:
            for table, row, trials, seconds, *rest in list(csv.reader(lines))[1:]:
                found[table, row] = Study(int(trials), float(seconds), *rest)
    for table, plan in TABLES.items():
        for row in plan.rows:
            if one := record(table, row, args):
                found[table, row] = one
    return found


def save_studies(file: Path, of: dict[tuple[str, str], Study]) -> None:
    """Write what all studies found, a line each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", *Study._fields])
    for key, one in sorted(of.items()):
        writer.writerow([*key, one.trials, f"{one.seconds:.0f}", *one[2:]])
    atomic.write_text(file, out.getvalue())


def tune(table: str, row: str, args: argparse.Namespace) -> int:
    """Tune a row, unless it has its trials; the exit status."""
    plan, folder = TABLES[table], study(table, row, args)
    one = record(table, row, args)
    if one and one.trials >= args.trials:
        return 0
    _, config, changes = plan.rows[row]
    blocks = [words(plan.blocks[block]) for block in plan.tuned_on]
    status = command(
        [
            "tune",
            "--cfg",
            plan.cfg.format(config),
            "--trials",
            str(args.trials),
            "--seeds",
            f"{plan.tuning[0]}-{plan.tuning[-1]}",
            "--selection",
            plan.selection,
            "--jobs",
            str(args.jobs),
            "--out-dir",
            str(folder.parent),
            "--name",
            folder.name,
            *(word for block in blocks if block for word in ("--block", " ".join(block))),
            *words(changes),
            *args.set,
        ]
    )
    if status > 1:
        sys.exit(status)  # interrupted, or an argument is wrong: the next row would fare no better
    return status


def cells(table: str, row: str, args: argparse.Namespace) -> dict[str, Cell]:
    """The reported runs of a row by block, none before it is tuned."""
    plan = TABLES[table]
    cfg = next((study(table, row, args) / "tuned").glob("*.yaml"), None)
    seeds = range(args.splits or len(plan.reported))
    return {
        block: Cell("report", f"{table}-{block}-{row}", str(cfg), changes, seeds)
        for block, changes in plan.blocks.items()
        if cfg
    }


def rows_of(table: str, args: argparse.Namespace) -> list[str]:
    return [
        row
        for row in TABLES[table].rows
        if any(fnmatch(row, pattern) for pattern in args.only.split(","))
    ]


def found(table: str, args: argparse.Namespace) -> Table:
    """All finished runs of rows that are tuned, of ``--out-dir`` or else of ``--csv``."""
    plan, runs = TABLES[table], {}
    before = known(args.csv, f"tuned-{plan.hand}")
    for row in plan.rows:
        blocks = {block: cell.results(args) for block, cell in cells(table, row, args).items()}
        blocks = blocks or {block: before.get((block, row), {}) for block in plan.blocks}
        if blocks := {block: results for block, results in blocks.items() if results}:
            runs[row] = blocks
    return runs


def score(blocks: dict[str, Results], metric: str) -> str:
    """Mean over blocks of a test score in %; over one block with the standard deviation."""
    values = [
        [100 * result["test"][metric] for result in results.values() if metric in result["test"]]
        for results in blocks.values()
    ]
    if not all(values):
        return "-"
    spread = f" ± {mean_std(values[0])[1]:.1f}" * (len(values) == 1)
    return f"{mean(map(mean, values)):.1f}{spread}"


def gaps(plan: Plan, ours: dict[str, Results], others: dict[str, Results]) -> list[float]:
    """Differences of scores by masked set or run; means of blocks where splits are no draws."""
    pairs = [
        differences(ours[block], others[block], plan.metric) for block in ours if block in others
    ]
    return list(chain(*pairs)) if plan.drawn else list(map(mean, filter(None, pairs)))


def scores_table(
    table: str, runs: Table, of: dict[tuple[str, str], Study], args: argparse.Namespace
) -> str:
    """The rows with their scores, their cost and their tests, the leader first."""
    plan = TABLES[table]
    order = leading(runs, plan.metric)
    hand = known(args.csv, plan.hand)
    # Each row is tested against the best other one: all against the first, it against the second.
    pairs = {row: gaps(plan, runs[row], runs[order[0]]) for row in order[1:]}
    p = tests(pairs)
    for row in order[1:2]:
        pairs[order[0]], p[order[0]] = [-value for value in pairs[row]], p[row]

    lines = []
    for row in order:
        blocks, one = runs[row], of[table, row]
        every = [result for results in blocks.values() for result in results.values()]
        before = {
            block: {
                seed: result
                for seed, result in hand.get((block, row), {}).items()
                if seed in results
            }
            for block, results in blocks.items()
        }
        line = [
            marked(row, plan.rows[row][0]),
            min(map(len, blocks.values())),
            *(score(blocks, metric) for metric in (plan.metric, "macro_recall")),
        ]
        if "unknown_auroc" in every[0]["test"]:
            line.append(score(blocks, "unknown_auroc"))
        values = pairs.get(row, [])
        line += [
            score(before, plan.metric).partition(" ")[0],
            f"{mean(values):+.1f}" if values else "-",
            wins(values),
            *p.get(row, "--"),
            one.trials,
            f"{one.seconds:.0f}",
            f"{mean(result['seconds'] for result in every):.1f}",
        ]
        lines.append(line)
    head = [
        "method",
        "n",
        close_set.METRIC_NAMES[plan.metric],
        "macro recall",
        "AUROC",
        "by hand",
        "less best other",
        "wins",
        "p Wilcoxon",
        "Holm",
        "trials",
        "tuning s",
        "s a run",
    ]
    if len(lines[0]) < len(head):
        head.remove("AUROC")
    return markdown(head, lines)


def settings_table(table: str, rows: list[str], of: dict[tuple[str, str], Study]) -> str:
    """What was chosen for each row."""
    lines = [
        [
            marked(row, TABLES[table].rows[row][0]),
            of[table, row].default or "-",
            of[table, row].chosen,
            of[table, row].changed,
        ]
        for row in rows
    ]
    return markdown(["method", "its config", "chosen", "what was changed"], lines)


def table_text(
    table: str, of: dict[tuple[str, str], Study], args: argparse.Namespace
) -> tuple[str, list[dict[str, Any]]]:
    """One table, and the results it is made of."""
    plan = TABLES[table]
    runs = {row: blocks for row, blocks in found(table, args).items() if (table, row) in of}
    if not runs:
        return "", []
    if args.csv:
        save_csv(args.csv, f"tuned-{plan.hand}", runs)
    on = ", ".join(close_set.BLOCKS.get(block, block) for block in plan.tuned_on)
    text = (
        f"### {plan.title}, tuned by machine\n\n{args.trials} trials a row on {on}, split seeds"
        f" {plan.tuning[0]} to {plan.tuning[-1]}, selector `{plan.selection}`; reported split"
        f" seeds 0 to {(args.splits or len(plan.reported)) - 1}.\n\n"
        + scores_table(table, runs, of, args)
    )
    text += (
        "What was chosen, and the selector's score in %, means over the tuning seeds:\n\n"
        + settings_table(table, leading(runs, plan.metric), of)
    )
    return text, [
        result
        for blocks in runs.values()
        for results in blocks.values()
        for result in results.values()
    ]


def begin() -> int:
    options = parser(__doc__, "--out-dir", "results/tuned")
    add = options.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)} (default: all)")
    add("--only", default="*", metavar="ROW,...", help="patterns of rows")
    add("--trials", type=int, default=20, help="of each row (default: %(default)s)")
    add("--splits", type=int, metavar="N", help="reported split seeds (default: the table's)")
    add(
        "--csv",
        type=Path,
        metavar="FILE",
        help="scores of every run are added to it, and to"
        f" {STUDIES} beside it what the studies found; what only they have is in the tables too",
    )
    args = options.parse_args()
    args.tables = args.tables or list(TABLES)
    for table in args.tables:
        if table not in TABLES:
            options.error(f"no table {table}; there are {', '.join(TABLES)}")

    failed = 0
    for table in [] if args.no_run else args.tables:
        for row in rows_of(table, args):
            failed += tune(table, row, args)
            failed += run([*cells(table, row, args).values()], args)
    of = studies(args)
    if args.csv and of:
        save_studies(args.csv.with_name(STUDIES), of)
    parts = [table_text(table, of, args) for table in TABLES]
    every = [result for _, results in parts for result in results]
    text = "no results yet\n"
    if every:
        text = "".join(part for part, _ in parts) + (
            "Test scores in %, mean ± population standard deviation. *By hand*: the first score of"
            " the same row on the same splits in the hand-set table. *Less best other*: the"
            " difference to the first row, and of the first row to the second; wins and two-sided p"
            " count masked sets, directions or runs, Holm over the rows. *Tuning s*: of all trials"
            " together. Seconds were taken beside other work: an upper bound. "
            f"{UNPROVEN}\n\n{provenance(every)}"
        )
    publish(text, args.out)
    return min(failed, 1)


if __name__ == "__main__":
    main(begin)

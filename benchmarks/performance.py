"""Run every performance benchmark, and write the summary of docs/performance.md.

    python benchmarks/performance.py --out docs/research/performance.md   # measure, for hours
    python benchmarks/performance.py --only speed,imports --out docs/research/performance.md
    python benchmarks/performance.py --summary docs/performance.md        # measures nothing

Each program writes its table between its marks as soon as it is finished, so a later failure loses
nothing. Use an idle machine. GRAPHGYM_SRNC_DATA names the data folder. ``--summary`` copies the
main rows of the measured tables in ``docs/``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import _pages

FOLDER = Path(__file__).resolve().parent
DOCS = FOLDER.parent / "docs"
PARTS = {
    "speed": "speed.py --threads 1 --rounds 3",
    "roofline": "kernels.py roofline",
    "dmon": "kernels.py dmon --threads 2",
    "peers": "peers.py",
    "threads": "threads.py",
    "imports": "imports.py",
    "records": "records.py",
    "efficiency": "grid.py efficiency",
    "kill": "grid.py kill",
    "growth": "grid.py growth",
}
"""Parts of the page, in its order, and the programs that measure them."""

GRAPHS = ("cora", "citeseer", "pubmed")
RUNS = {"erm": "GCN", "srnc": "SRNC", "srnc-plus": "SRNC+"}
NODES = ("labelled nodes", "all nodes")
STOCK = "against stock GraphGym"
OTHERS = (STOCK, "against a plain PyG script", "against PyG with CSR and sparse features")
EDGES = ("1,000,000", "10,000,000", "100,000,000")


def runs() -> str:
    """Time and memory of whole runs."""
    rows = measured("speed.py")
    lines = []
    for graph in GRAPHS:
        for key, name in RUNS.items():
            ours, other, ratio = rows[f"whole run, {graph}, {key}, {STOCK}"][:3]
            mib = rows[f"peak memory of whole run, {graph}, {key}, {STOCK}"]
            lines.append((graph, name, ours, other, ratio, *mib[:2]))
    return _pages.table(
        ("graph", "method", "time", "stock GraphGym", "ratio", "memory", "stock GraphGym"), lines
    )


def steps() -> str:
    """Time of a training step by backbone and graph."""
    rows, lines = measured("speed.py"), []
    for layer in ("gcn", "sage", "gat", "sgc"):
        for graph in (*GRAPHS, "arxiv-size"):
            found = [
                [rows.get(f"{layer} step, {graph}, loss on {nodes}, {other}") for other in OTHERS]
                for nodes in NODES
            ]
            ours = [next(row[0] for row in of_nodes if row) for of_nodes in found]
            lines.append((layer, graph, *ours, *(row[1] if row else "-" for row in found[0])))
    return _pages.table(
        ("backbone", "graph", *NODES, "stock GraphGym", "plain PyG", "PyG with CSR"), lines
    )


def memory() -> str:
    """Peak memory of training steps at ogbn-arxiv's size."""
    rows = measured("speed.py")
    return _pages.table(
        ("GCN at ogbn-arxiv's size, loss on", "memory", "stock GraphGym", "ratio"),
        (
            (nodes, *rows[f"peak memory of gcn steps, arxiv-size, loss on {nodes}, {STOCK}"][:3])
            for nodes in NODES
        ),
    )


def scale() -> str:
    """Time and memory of a run against the number of edges."""
    head, *lines = tables("scale.py")
    assert head[:3] == ("method", "training", "edges"), head
    return _pages.table(
        ("method", "training", "edges", "CPU s", "MiB"),
        ((*line[:4], line[6]) for line in lines if len(line) == len(head) and line[2] in EDGES),
    )


SUMMARY = {"runs": runs, "steps": steps, "memory": memory, "scale": scale}
"""Tables of docs/performance.md."""


def tables(program: str) -> Iterator[tuple[str, ...]]:
    """The cells of each line of all tables of the page with a program's mark.

    Raises:
        SystemExit: no page has the mark.
    """
    mark = f"<!-- table of benchmarks/{program} -->"
    pages = (path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md")))
    page = next((text for text in pages if mark in text), None)
    if page is None:
        raise SystemExit(f"no page in {DOCS} has the line {mark}")
    for line in (page if program == "speed.py" else page.partition(mark)[2]).splitlines():
        if line == _pages.END and program != "speed.py":
            return
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield tuple(cell.strip() for cell in line.strip("|").split("|"))


def measured(program: str) -> dict[str, tuple[str, ...]]:
    """Cells by the first one of each line; of equal ones the first line counts."""
    found: dict[str, tuple[str, ...]] = {}
    for name, *cells in tables(program):
        found.setdefault(name, tuple(cells))
    return found


def summarise(page: Path) -> None:
    """Write the tables of the summary between their marks."""
    for name in SUMMARY:
        _pages.check(page, f"performance.py {name}")
    for name, make in SUMMARY.items():
        _pages.write(page, f"performance.py {name}", make())


def measure(chosen: list[str], page: Path) -> None:
    """Run programs one after another.

    Raises:
        SystemExit: at least one failed.
    """
    failed = []
    for part in chosen:
        program, *words = PARTS[part].split()
        begin = time.monotonic()
        status = subprocess.run(
            [sys.executable, FOLDER / program, *words, "--out", page]
        ).returncode
        print(f"{part}: exit status {status}, {time.monotonic() - begin:.0f} s", flush=True)
        failed += [part] * bool(status)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        default=",".join(PARTS),
        metavar="PART,...",
        help=f"of {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="measure, and write the tables to this page (created if missing)",
    )
    parser.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="write the main rows of measured tables to this page",
    )
    args = parser.parse_args()
    chosen = args.only.split(",")
    for part in chosen:
        if part not in PARTS:
            parser.error(f"no part {part}; there are {', '.join(PARTS)}")
    if not args.out and not args.summary:
        parser.error("give --out, --summary or both")
    if args.out:
        measure(chosen, args.out)
    if args.summary:
        summarise(args.summary)


if __name__ == "__main__":
    main()

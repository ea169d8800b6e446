"""What ``data show`` prints of a task."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from graphgym_srnc.core.text import aligned
from graphgym_srnc.report.table import ruled


def show(summary: dict[str, Any], out: TextIO | None = None) -> None:
    """Print what ``data.describe.describe`` found: with rules on a terminal, plain elsewhere."""
    out = out or sys.stdout
    info = {key: value for key, value in summary["info"].items() if key != "cleaned"}
    facts = {"task": summary["name"], **info, "fingerprint": summary["fingerprint"][:16]}
    graphs, labels = summary["graphs"], summary["labels"]
    figures = [
        (key.replace("_", " "), *(_figure(graph[key]) for graph in graphs.values()))
        for key in next(iter(graphs.values()))
    ]
    totals = {
        side: max(sum(count[side] for count in labels.values()), 1) for side in ("source", "target")
    }
    classes = [
        (
            name,
            *(
                text
                for side, total in totals.items()
                for text in (str(count[side]), f"{100 * count[side] / total:.1f}")
            ),
        )
        for name, count in labels.items()
    ]
    tables = {
        "": [(key, str(value)) for key, value in facts.items()],
        "graph": [("", *graphs), *figures],
        "split": [(key, str(size)) for key, size in summary["splits"].items()],
        "labels": [("class", "train", "%", "target", "%"), *classes],
    }
    if not out.isatty():
        for title, lines in tables.items():
            print(aligned(lines, right=title in ("graph", "labels")), file=out)
        print("".join(f"! {warning}\n" for warning in summary["warnings"]), end="", file=out)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out)
    for title, lines in tables.items():
        headed = title in ("graph", "labels")
        console.print(
            ruled(lines if headed else [[""] * len(lines[0]), *lines], title, right=headed)
        )
    for warning in summary["warnings"]:
        console.print(Text("!", style="yellow"), warning, highlight=False, markup=False)


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"

"""Each rival under its authors' protocol, beside the number that is published for it.

    python benchmarks/reproduction.py --only a2gnn,gnnsafe    # run what is missing
    python benchmarks/reproduction.py --no-run                # the table of what is there

Every run is one of ``graphgym-srnc run --resume``. ``claims.yaml`` has the settings, which are the
authors' or pygda's and never chosen on our test scores. A claim is reproduced where the mean of our
runs is at most one point away from the published one. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any, Sequence

import pandas as pd
import yaml
from directives import table

import graphgym_srnc
from graphgym_srnc.cli.main import main as command
from graphgym_srnc.report.statistics import mean, mean_std

POINT = 1.0
"""How far from the published number a reproduction may be."""

PLAN = yaml.safe_load(Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8"))


def claim(key: str) -> dict[str, Any]:
    """A claim with what its protocol says."""
    own = PLAN["claims"][key]
    protocol = {"runs": 5, "changes": ""} | PLAN["protocols"][own["protocol"]]
    changes = f"{protocol['changes']} {own.get('changes', '')}"
    return protocol | own | {"changes": changes}


def settings(one: dict[str, Any], block: str) -> list[str]:
    """Keys and values of a block of a claim, alternately; the last value of a key wins."""
    words = f"{one['changes']} {one['blocks'][block]}".split()
    return [word for pair in dict(zip(words[::2], words[1::2])).items() for word in pair]


def run(key: str, folder: Path) -> None:
    """Run what is missing of a claim.

    Raises:
        SystemExit: a run failed.
    """
    one = claim(key)
    for block in one["blocks"]:
        words = ["run", "--cfg", one["cfg"], "--repeat", str(one["runs"]), "--resume"]
        words += ["--out-dir", str(folder), "--name", f"{key}-{block.lower()}", "--no-figures"]
        if status := command([*words, *settings(one, block)]):
            raise SystemExit(status)


def found(runs: pd.DataFrame, key: str) -> dict[str, list[float]]:
    """Scores of the finished runs of a claim in %, by block."""
    one = claim(key)
    scores = {
        block: runs[runs.experiment == f"{key}-{block.lower()}"][f"test_{one['metric']}"]
        for block in one["blocks"]
        if f"test_{one['metric']}" in runs
    }
    return {block: [100 * score for score in part] for block, part in scores.items() if len(part)}


def line(key: str, scores: dict[str, list[float]]) -> list[str]:
    """What is printed of a claim, and whether it is reproduced."""
    one = claim(key)
    first = [one["rival"], one["name"], figures(one["published"])]
    runs = str(min(map(len, scores.values()), default=0))
    if len(scores) < len(one["blocks"]):
        done = f"{len(scores)} of {len(one['blocks'])}" if scores else "not run"
        return [*first, done, "-", runs, "-", one["source"]]
    means = list(map(mean, scores.values()))
    gap = mean(means) - mean(one["published"])
    error = mean(mean_std(values)[1] for values in scores.values())
    verdict = "yes" if abs(gap) <= POINT else "above" if gap > 0 else "**no**"
    ours = figures(means)
    if error > 0:
        ours += f" (± {error:.1f})"
    return [*first, ours, f"{gap:+.2f}", runs, verdict, one["source"]]


def figures(scores: Sequence[float]) -> str:
    parts = ", ".join(f"{score:.1f}" for score in scores)
    return f"{parts}; mean {mean(scores):.1f}" if len(scores) > 1 else parts


def save(path: Path, lines: dict[str, list[str]]) -> None:
    """Write what became of each claim, one a line."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "reproduced", "difference", "runs"])
        for key, part in lines.items():
            if part[6] != "-":
                writer.writerow([key, part[6].strip("*"), part[4], part[5]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    claims = list(PLAN["claims"])
    option = parser.add_argument
    option("--only", default=",".join(claims), metavar="CLAIM,...", help=f"of {', '.join(claims)}")
    option("--no-run", action="store_true", help="only print what is there")
    option("--csv", type=Path, metavar="FILE", help="write the verdicts here too")
    option("--out-dir", type=Path, default=Path("results/reproduction"), metavar="DIR")
    args = parser.parse_args()
    chosen = args.only.split(",")
    for key in chosen:
        if key not in claims:
            parser.error(f"--only: got {key}; allowed: {', '.join(claims)}")
        if not args.no_run:
            run(key, args.out_dir)
    runs = graphgym_srnc.results(args.out_dir)
    lines = {key: line(key, found(runs, key)) for key in chosen}
    head = ["rival", "protocol", "published, %", "here, %", "difference", "runs", "reproduced"]
    print(table([*head, "source"], lines.values()))
    if args.csv:
        save(args.csv, lines)


if __name__ == "__main__":
    main()

"""New classes with 20 labels per class, on the graphs on which SRNC+ was developed.

    python benchmarks/development.py results    # run what is missing below a folder, store scores

The graphs are Photo and 24 kinds of synthetic graph; tables.yaml lists them. All methods run with
their configs for Cora. Runs are stored in runs.csv, and synthetic.csv and synthetic-2.csv have
the tables of the synthetic graphs. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import Any, Iterable

import pandas as pd
import scores
from scores import DATA, OURS, PLAN

from graphgym_srnc.cli.main import main as command
from graphgym_srnc.report.statistics import mean

METHODS = {
    "erm": ["--cfg", "paper/open_set/cora-erm"],
    "pgl-gcn": ["--cfg", "paper/open_set/cora-pgl"],
    "pgl-ppr": ["--cfg", "paper/open_set/cora-pgl", "pgl.smoothing", "10"],
    OURS: ["--cfg", "paper/open_set/cora-srnc-plus"],
}
RIVALS = ("erm", "pgl-gcn", "pgl-chosen-2")
COLUMNS = ("classes", "masked", "homophily", "degree exponent", "imbalance", "nodes")
KEYS = ("num_classes", "num_unseen", "homophily", "degree_exponent", "class_imbalance", "num_nodes")
"""Names of the columns of a kind of synthetic graph, and of their config keys."""


def problems() -> Iterable[tuple[str, int, list[str]]]:
    """Table and block in runs.csv, number of seeds, and config keys of all graphs."""
    for name, entry in PLAN["developed"].items():
        keys = ["dataset.name", entry["name"], "open_set.num_unseen", str(entry["masked"])]
        yield f"open_set:{name}", entry["seeds"], keys
    for i, kind in enumerate(PLAN["synthetic"]["kinds"]):
        keys = ["dataset.format", "synthetic", "dataset.name", "synthetic"]
        for key, value in zip(KEYS, kind):
            keys += [f"synthetic.{key}", str(value)]
        yield f"synthetic:{i}", PLAN["synthetic"]["seeds"], keys


def level(column: str, kind: dict[str, Any]) -> str:
    """A value of a factor in print; masked classes as a share, unless it is one class."""
    if column != "masked":
        return str(kind[column])
    share = Fraction(kind["masked"], kind["classes"]).limit_denominator(3)
    return "1" if kind["masked"] == 1 else str(share)


def tables() -> None:
    """Write the scores of each kind of synthetic graph, and the mean differences by factor."""
    runs, lines, gaps = scores.stored("synthetic"), [], []
    for i, values in enumerate(PLAN["synthetic"]["kinds"]):
        kind = dict(zip(COLUMNS, values))
        shown = kind | {"degree exponent": kind["degree exponent"] or ""}
        of_kind = scores.with_chosen(runs[runs.block.astype(str) == str(i)])
        score = of_kind.pivot(index="seed", columns="row", values="micro_f1")
        means = {row: f"{mean(score[row].tolist()):.1f}" for row in (*RIVALS, OURS)}
        line, gap = {"kind": i} | shown | {"n": len(score)} | means, {}
        for row in RIVALS:
            pairs = score[OURS] - score[row]
            gap[f"less {row}"] = mean(pairs.tolist())
            line[f"less {row}"] = f"{gap[f'less {row}']:+.1f}"
            line[f"less {row} ±"] = f"{pairs.sem():.1f}"
        lines.append(line)
        gaps += [{"factor": column, "level": level(column, kind)} | gap for column in COLUMNS[:-1]]
        gaps.append({"factor": "all", "level": ""} | gap)
    of_factors = pd.DataFrame(gaps).groupby(["factor", "level"], sort=False)
    by_factor = of_factors.mean().map("{:+.1f}".format)
    by_factor.insert(0, "graphs", of_factors.size())
    order = {name: i for i, name in enumerate((*COLUMNS, "all"))}
    sort_keys = {"factor": order.get, "level": lambda text: Fraction(text or "0")}
    by_factor = by_factor.reset_index().sort_values(
        [*sort_keys], key=lambda column: column.map(sort_keys[column.name])
    )
    for name, made in (("synthetic", pd.DataFrame(lines)), ("synthetic-2", by_factor)):
        made.to_csv(DATA / f"{name}.csv", index=False, lineterminator="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of the results")
    folder = parser.parse_args().folder
    for place, seeds, keys in problems():
        for row, (flag, config, *own) in METHODS.items():
            name = f"{place.replace(':', '-')}-{row}"
            words = ["run", flag, config, "--repeat", str(seeds), "--resume", "--no-figures"]
            words += ["--no-tensorboard", "--out-dir", str(folder), "--name", name]
            if command([*words, *own, *keys]):
                raise SystemExit(f"{name}: the run failed")
            scores.add(f"{place}:{row}", folder / name)
    scores.every_run.cache_clear()
    tables()


if __name__ == "__main__":
    main()

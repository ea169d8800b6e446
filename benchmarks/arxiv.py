"""Seconds and memory of methods at the full size of ogbn-arxiv, over its three test periods.

    python benchmarks/arxiv.py                 # 18 runs; the same command resumes
    python benchmarks/arxiv.py --methods erm   # a part of them

The files have ogbn-arxiv's layout, its 169,343 papers by year and class, and made features and
citations, so the scores mean nothing. The runs are one grid of the command line with the shipped
configs ``paper/close_set/arxiv/<method>``, and the last tables are those of ``compare``.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from graphgym_srnc.data import arxiv_like
from graphgym_srnc.shifts import splits

METHODS = ("erm", "cmd", "dann", "srgnn", "srnc-paper", "srnc-plus")


def write(folder: Path) -> None:
    """Write the raw files and the split of ogbn-arxiv below a data folder, if they are missing."""
    place = folder / "ogb" / "ogbn_arxiv"
    last = place / "split" / "time" / "test.csv.gz"
    if last.exists():
        return
    rng = splits.generator(0, "arxiv_like")
    years, labels = arxiv_like.years_and_labels(1.0, 2010, rng)
    made = arxiv_like.arxiv_like(years, labels, rng=rng)
    order = np.arange(len(years))
    tables = {
        "raw/edge": made.edge_index.numpy().T,
        "raw/node-feat": made.x.numpy(),
        "raw/node-label": labels,
        "raw/node_year": years,
        "raw/num-node-list": [len(years)],
        "raw/num-edge-list": [made.edge_index.size(1)],
        "split/time/train": order[years <= 2017],
        "split/time/valid": order[years == 2018],
        "split/time/test": order[years > 2018],
    }
    for name, table in tables.items():
        path = place / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
            pd.DataFrame(table).to_csv(file, header=False, index=False, float_format="%.4g")


def run(*words: object) -> int:
    """Run a command of the package and return its exit status."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "graphgym_srnc", *map(str, words)], env=environment
    ).returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out-dir",
        type=Path,
        default=Path("results/arxiv_size"),
        metavar="DIR",
        help="folder of data and runs (default: %(default)s)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=METHODS,
        help="run these only (default: all)",
    )
    args = parser.parse_args()
    data = args.out_dir.absolute() / "data"
    write(data)
    grid = args.out_dir / "grid.txt"
    configs = ",".join(f"'paper/close_set/arxiv/{method}'" for method in args.methods)
    grid.write_text(f"cfg cfg [{configs}]\ntemporal.period p [1,2,3]\n", encoding="utf-8")
    failed = run(
        "grid",
        "--grid",
        grid,
        "--jobs",
        1,
        "--resume",
        "--no-tensorboard",
        "--out-dir",
        args.out_dir,
        "--name",
        "runs",
        "dataset.dir",
        data,
    )
    return failed or run(
        "compare",
        args.out_dir / "runs",
        "--metric",
        "seconds",
        "peak_memory_mib",
        "--columns",
        "temporal.period",
    )


if __name__ == "__main__":
    sys.exit(main())

"""Every table of docs/performance.md, one program of this folder after another.

    python benchmarks/performance.py --out docs/performance.md
    python benchmarks/performance.py --only speed,imports --out docs/performance.md

Each program puts its table between its marks as soon as it has it, so what is finished stays when
another one fails. It takes hours, and wants an idle machine: times beside other work are
worth little. GRAPHGYM_SRNC_DATA names the data folder.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
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
"""Parts of the page, in its order, and what measures them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...",
                        help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True,
                        help="the page; one that is not there is made")
    args = parser.parse_args()
    chosen = args.only.split(",")
    for part in chosen:
        if part not in PARTS:
            parser.error(f"no part {part}; there are {', '.join(PARTS)}")

    failed = []
    for part in chosen:
        program, *words = PARTS[part].split()
        begin = time.monotonic()
        status = subprocess.run([sys.executable, FOLDER / program, *words,
                                 "--out", args.out]).returncode
        print(f"{part}: exit status {status}, {time.monotonic() - begin:.0f} s", flush=True)
        failed += [part] * bool(status)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

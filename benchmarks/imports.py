"""What each command imports, and how long that takes: ``-X importtime`` of tiny calls.

    python benchmarks/imports.py --out docs/research/performance.md

A module's part is its own, without what it imports; that of a package is the sum over its modules.
Parts are shares of the time of imports, which is by the clock; seconds are those of the processor
for the whole call, which other work moves less. Of several turns the one with the least is taken.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import _pages

HERE = Path(__file__).resolve().parent
TINY = (
    "synthetic.num_nodes 120 synthetic.num_val 20 synthetic.num_test 40 erm.steps 1 "
    "synthetic.labels_per_class 5 train.max_episodes 0"
).split()
RUN = ["run", "--cfg", "testing/erm", "--out-dir", "out", "--no-figures", "--name"]
COMMANDS = {
    "--help": ["-m", "graphgym_srnc", "--help"],
    "options erm": ["-m", "graphgym_srnc", "options", "erm"],
    "run": ["-m", "graphgym_srnc", *RUN, "new", "--overwrite", *TINY],
    "run, finished already": ["-m", "graphgym_srnc", *RUN, "done", *TINY],
    "run, train.mode standard": [
        "-m",
        "graphgym_srnc",
        *RUN,
        "standard",
        "--overwrite",
        *TINY[:-2],
        "train.mode",
        "standard",
        "optim.max_epoch",
        "1",
    ],
    "a worker of a grid": [
        "-c",
        "from graphgym_srnc import environment; environment.is_command = "
        "True; import graphgym_srnc.sweep.worker; from graphgym_srnc.gym import "
        "load_config; load_config('testing/erm')",
    ],
    "compare": ["-m", "graphgym_srnc", "compare", "out/done"],
    "report": ["-m", "graphgym_srnc", "report", "out/done", "--out", "page.html", "--overwrite"],
    "predict": ["-m", "graphgym_srnc", "predict", "out/done", "--out", "p.csv", "--overwrite"],
    "from graphgym_srnc import SRNC": ["-c", "from graphgym_srnc import SRNC"],
    "import torch": ["-c", "import torch"],
    "import torch_geometric": ["-c", "import torch_geometric"],
    "stock GraphGym's main.py": ["-c", "from torch_geometric.graphgym import train"],
}
"""Words of each call; the last three are what others pay."""

LARGEST = 5
"""Packages that are named."""

LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


class Call(NamedTuple):
    """Seconds of the processor that a call took, and of the clock for the imports of a package."""

    cpu: float
    packages: Counter[str]


def imports(words: list[str], folder: Path) -> Call:
    """Call Python, and look at what it imports.

    Raises:
        SystemExit: it failed; but a run that is finished already has to be refused.
    """
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(
            [sys.executable, "-X", "importtime", *words],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        told = err.read()
    if child.returncode and "finished runs" not in told:
        raise SystemExit(f"{' '.join(words)} failed:\n{told[-2000:]}")
    found: Counter[str] = Counter()
    for line in told.splitlines():
        match = LINE.match(line)
        if match:
            found[match[2].partition(".")[0]] += int(match[1]) / 1e6
    return Call(usage.ru_utime + usage.ru_stime, found)


def main() -> None:
    """Call each command, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="turns of each (default: 3)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a markdown file to write the table to, between its marks",
    )
    args = parser.parse_args()
    if args.out:
        _pages.check(args.out, "imports.py")
    least: dict[str, Call] = {}
    loads = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        imports([*COMMANDS["run"][: -len(TINY) - 2], "done", *TINY], folder)
        for command in [*COMMANDS] * args.repeats:
            found = imports(COMMANDS[command], folder)
            least[command] = min(found, least.get(command, found), key=lambda call: call.cpu)
            loads.append(os.getloadavg()[0])
            print(f"{command}: {found.cpu:.2f} s, load {loads[-1]:.1f}", flush=True)
    text = (
        f"Minimum of {args.repeats} rounds; load of the machine {min(loads):.1f} to "
        f"{max(loads):.1f} on {os.cpu_count()} cores.\n\n{render(least)}"
    )
    print(text)
    if args.out:
        _pages.write(args.out, "imports.py", text)


def render(least: dict[str, Call]) -> str:
    """Seconds and largest packages of each call."""
    rows = []
    for command, (cpu, packages) in least.items():
        whole = packages.total()
        named = ", ".join(
            f"{package} {seconds / whole:.0%}" for package, seconds in packages.most_common(LARGEST)
        )
        rows.append((f"`{command}`", f"{cpu:.2f}", str(len(packages)), named))
    return _pages.table(("call", "CPU s, whole call", "packages", "largest, of all imports"), rows)


if __name__ == "__main__":
    main()

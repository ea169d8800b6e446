"""What `compare` and `report` take over many finished runs, and how it grows with their number.

    python benchmarks/records.py --out docs/research/performance.md

One toy run is made by the command line. All others are its record with another learning rate, seed,
split and scores, sealed as the store seals them: ten seeds a setting, as a grid leaves them. Times
are of the processor, in processes of their own, imports included; those of the clock are beside
them.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

import _pages

from graphgym_srnc.io import store
from graphgym_srnc.io.settings import digest

HERE = Path(__file__).resolve().parent
SEEDS = 10
TOY = (
    "synthetic.num_nodes 120 synthetic.num_classes 4 synthetic.num_unseen 1 "
    "synthetic.labels_per_class 5 synthetic.num_features 50 synthetic.num_val 20 "
    "synthetic.num_test 40 erm.steps 1 train.max_episodes 0"
).split()
COMMANDS = {"compare": 10, "report": 30}
"""What is timed, and the seconds that 10,000 runs were meant to take at most."""


class Cost(NamedTuple):
    """Of a process: seconds of the processor and of the clock, and its largest memory."""

    cpu: float
    clock: float
    mib: float


def run(*words: object) -> Cost:
    """A command of the package, to its end.

    Raises:
        SystemExit: it failed.
    """
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as err:
        begin = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "graphgym_srnc", *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=environment,
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode, clock = os.waitstatus_to_exitcode(status), time.perf_counter() - begin
        err.seek(0)
        if child.returncode:
            raise SystemExit(f"{words[0]} failed:\n{err.read()[-2000:]}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Cost(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss / unit)


def toy(folder: Path) -> store.Result:
    """The record of one toy run."""
    run("run", "--cfg", "testing/erm", "--out-dir", folder, "--name", "toy", "--no-figures", *TOY)
    _, result = store.finished_run(folder / "toy")
    return result


def fill(folder: Path, pattern: store.Result, number: int) -> None:
    """Write so many records into a folder, as a grid over the learning rate leaves them."""
    rng = random.Random(0)
    for setting in range(number // SEEDS):
        config = copy.deepcopy(pattern["config"])
        config["optim"]["base_lr"] = round(0.001 * (setting + 1), 3)
        shared = {"config": config, "digest": digest(config)}
        for seed in range(SEEDS):
            place = folder / f"lr={config['optim']['base_lr']}" / str(seed)
            config["seed"] = seed
            record = (
                pattern
                | shared
                | {
                    "seed": seed,
                    "split": f"{seed:064x}",
                    "val": _shaken(pattern["val"], rng),
                    "test": _shaken(pattern["test"], rng),
                }
            )
            place.mkdir(parents=True)
            text = json.dumps(store.sealed(record), indent=1) + "\n"
            (place / "result.json").write_text(text, encoding="utf-8")
            head = {"seed": seed, "digest": record["digest"]}
            (place / "run.json").write_text(json.dumps(head) + "\n", encoding="utf-8")


def _shaken(scores: dict[str, float], rng: random.Random) -> dict[str, float]:
    return {
        name: min(1.0, max(0.0, value + rng.gauss(0, 0.05)))
        if store.FRACTION.fullmatch(name)
        else value
        for name, value in scores.items()
    }


def main() -> None:
    """Make records, time the commands at each number of them, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        nargs="+",
        default=[2500, 5000, 10000],
        metavar="N",
        help="numbers of runs (default: 2500 5000 10000)",
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
        _pages.check(args.out, "records.py")

    taken: dict[tuple[str, int], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        pattern = toy(home)
        for number in args.runs:
            fill(home / str(number), pattern, number)
        loads = []
        for command, number in [
            (command, number)
            for _ in range(args.repeats)
            for number in args.runs
            for command in COMMANDS
        ]:
            out = home / f"{command}-{number}.{'html' if command == 'report' else 'txt'}"
            cost = run(command, home / str(number), "--out", out, "--overwrite")
            taken.setdefault((command, number), []).append(cost)
            loads.append(os.getloadavg()[0])
            print(
                f"{command}, {number} runs: {cost.cpu:.1f} s of CPU, {cost.clock:.1f} s, "
                f"{cost.mib:.0f} MiB, load {loads[-1]:.1f}",
                flush=True,
            )
    text = (
        f"{args.repeats} round(s), medians; load of the machine {min(loads):.1f} to "
        f"{max(loads):.1f} on {os.cpu_count()} cores.\n\n{render(taken, args.runs)}"
    )
    print(text)
    if args.out:
        _pages.write(args.out, "records.py", text)


def render(taken: dict[tuple[str, int], list[Cost]], numbers: list[int]) -> str:
    """Costs by command and number of runs, and the slope of the logarithms."""
    rows = []
    for command, most in COMMANDS.items():
        middle = {number: Cost(*map(median, zip(*taken[command, number]))) for number in numbers}
        rows += [
            (
                command,
                f"{number:,}",
                f"{cost.cpu:.1f}",
                f"{cost.clock:.1f}",
                f"{cost.mib:.0f}",
                f"{most}" if number == 10_000 else "",
            )
            for number, cost in middle.items()
        ]
        if len(numbers) > 1:
            logs = [
                [math.log(number) for number in numbers],
                [math.log(middle[number].cpu) for number in numbers],
            ]
            rows.append((command, "slope", f"{linear_regression(*logs).slope:.2f}", "", "", ""))
    return _pages.table(("command", "runs", "CPU s", "clock s", "MiB", "aim, s"), rows)


if __name__ == "__main__":
    main()

"""Does a grid survive kill -9, and what does it cost beside the runs? By the public command line,
on graphs made in memory.

    python benchmarks/grid.py kill --runs 1000 --kills 10  # killed and resumed
    python benchmarks/grid.py efficiency --repeats 5       # one job and two by turns
    python benchmarks/grid.py growth --runs 10000          # does a run cost more among many?

``kill`` ends the whole process group or the parent alone, by turns. Everything is made anew in
``--out-dir``.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import _pages
from _harness import markdown

from graphgym_srnc.io import store

TINY = {
    "synthetic.num_nodes": 120,
    "synthetic.num_classes": 4,
    "synthetic.num_unseen": 1,
    "synthetic.labels_per_class": 5,
    "synthetic.num_features": 50,
    "synthetic.num_val": 20,
    "synthetic.num_test": 40,
    "erm.steps": 1,
    "train.max_episodes": 0,
}
"""Of the runs that are killed or counted."""

USUAL = {
    "synthetic.num_nodes": 2000,
    "synthetic.num_features": 500,
    "srnc.rounds": 10,
    "gnn.dim_inner": 64,
    "train.max_episodes": -1,
}
"""Of those that are timed: a few seconds each."""

SEEDS = 10


def command(
    folder: Path, grid: str, base: str, settings: dict[str, Any], seeds: int, *more: str
) -> list[str]:
    """A grid command; its results are in ``<folder>/g``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grid.txt").write_text(grid, encoding="utf-8")
    words = [str(word) for item in settings.items() for word in item]
    return [
        sys.executable,
        "-m",
        "graphgym_srnc",
        "grid",
        "--cfg",
        base,
        "--grid",
        str(folder / "grid.txt"),
        "--repeat",
        str(seeds),
        "--out-dir",
        str(folder),
        "--name",
        "g",
        "--no-tensorboard",
        *more,
        *words,
    ]


def start(words: list[str], own_group: bool = False) -> subprocess.Popen:
    return subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=own_group,
    )


def finish(process: subprocess.Popen) -> None:
    error = process.communicate()[1]
    if process.returncode:
        sys.exit(f"grid: exit status {process.returncode}\n{error}")


def finished(folder: Path) -> int:
    return sum(1 for _ in (folder / "g").glob("*/*/result.json"))


def numbers(folder: Path) -> dict[tuple[str, int], Any]:
    """What must be equal of each run, by its experiment and its seed."""
    found = {}
    for name, results in store.experiments(folder / "g"):
        for seed, result in results.items():
            history = [
                {key: value for key, value in episode.items() if key != "seconds"}
                for episode in result["history"]
            ]
            found[name, seed] = (
                result["digest"],
                result["split"],
                result["selected"],
                result["val"],
                result["test"],
                history,
            )
    return found


def tiny(args: argparse.Namespace) -> tuple[Any, ...]:
    """What :func:`command` takes of a grid of so many tiny runs."""
    rates = ",".join(f"{1e-5 * (number + 1):.5f}" for number in range(args.runs // SEEDS))
    return (f"optim.base_lr lr [{rates}]\n", "testing/erm", TINY, SEEDS, "--jobs", str(args.jobs))


def kill(args: argparse.Namespace) -> str:
    """Kill a grid again and again, resume it, and compare it with one that was left alone."""
    words = tiny(args)
    whole, torn = args.out_dir / "whole", args.out_dir / "killed"
    begin = time.monotonic()
    finish(start(command(whole, *words)))
    alone = time.monotonic() - begin
    generator = random.Random(args.seed)
    # How many runs are done when it is killed; the first kill falls into the start.
    moments = [0, *sorted(generator.sample(range(1, args.runs - args.jobs), args.kills - 1))]
    done, orphans = [], []
    for number, moment in enumerate(moments):
        process = start(command(torn, *words, "--resume"), own_group=True)
        while process.poll() is None and finished(torn) < moment:
            time.sleep(0.02)
        time.sleep(generator.uniform(0.0, 1.0))
        if process.poll() is not None:
            sys.exit(f"the grid ended before kill {number + 1}")
        if number % 2:
            workers = children(process.pid)
            process.kill()
            died = time.monotonic()
            while any(Path(f"/proc/{pid}").exists() for pid in workers):
                time.sleep(0.01)
            orphans.append(time.monotonic() - died)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        done.append(finished(torn))
        print(f"kill {number + 1}: {done[-1]} runs done", flush=True)
    finish(start(command(torn, *words, "--resume")))
    expected, found = numbers(whole), numbers(torn)
    twice = len(found) - len({(run[0], seed) for (_, seed), run in found.items()})
    left = [path for path in (torn / "g").rglob(".*") if path.name != ".locks"]
    return (
        f"{len(expected)} runs in {alone:.0f} s without a kill; {args.kills} kills, after "
        f"{', '.join(map(str, done))} runs\n"
        f"lost: {len(set(expected) - set(found))}, more than once: {twice}, too many: "
        f"{len(set(found) - set(expected))}, "
        f"different: {sum(expected[run] != found[run] for run in set(expected) & set(found))}, "
        f"temporary files left: {len(left)}\n"
        f"longest time until workers of a killed parent were gone: "
        f"{max(orphans, default=0.0):.2f} s\n"
    )


def children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def efficiency(args: argparse.Namespace) -> str:
    """The same grid with one job and with two, by turns."""
    grid = "srnc.cluster_steps T [10,20,30]\n"
    walls: dict[int, list[float]] = {1: [], 2: []}
    rates: dict[int, list[float]] = {1: [], 2: []}
    starts, warm = [], []
    for turn in range(args.repeats):
        for jobs in (1, 2):
            folder = args.out_dir / f"{turn}-{jobs}"
            begin, before = time.monotonic(), cpu_time()
            finish(
                start(
                    command(
                        folder,
                        grid,
                        "testing/srnc",
                        USUAL,
                        max(1, args.runs // 3),
                        "--jobs",
                        str(jobs),
                    )
                )
            )
            wall = time.monotonic() - begin
            files = list((folder / "g").glob("*/*/result.json"))
            ends = sorted(
                (path.stat().st_mtime, store.read_result(path.parent)["seconds"]) for path in files
            )
            taken = [seconds for _, seconds in ends]
            # From the end of the first run of the last worker on all workers are warm.
            rate = (len(ends) - jobs) / (ends[-1][0] - ends[jobs - 1][0])
            walls[jobs].append(wall)
            rates[jobs].append(rate)
            if jobs == 1:
                starts.append((wall - sum(taken)) / len(ends))
                warm.append(1 / rate - sum(taken[1:]) / len(taken[1:]))
            print(
                f"turn {turn + 1}, {jobs} job(s): {wall:.1f} s for {len(ends)} runs of "
                f"{sum(taken) / len(ends):.2f} s, "
                f"{(cpu_time() - before) / wall:.2f} cores busy with it, load "
                f"{os.getloadavg()[0]:.1f}",
                flush=True,
            )
    one, two = (statistics.median(walls[jobs]) for jobs in (1, 2))
    slow, fast = (statistics.median(rates[jobs]) for jobs in (1, 2))
    return (
        f"one job {one:.1f} s, two jobs {two:.1f} s (medians of {args.repeats})\n"
        f"parallel efficiency: {one / two / 2:.2f} with start and table, {fast / slow / 2:.2f} "
        f"in warm workers\n"
        f"cost of a run beside its own time: {statistics.median(starts):.2f} s with the start "
        f"of command and worker, "
        f"{1000 * statistics.median(warm):.0f} ms in a warm worker\n"
    )


def growth(args: argparse.Namespace) -> str:
    """One grid, looked at whenever the number of its finished runs has doubled."""
    begin = last = time.monotonic()
    process = start(command(args.out_dir, *tiny(args)), own_group=True)
    marks = [args.runs // 2**power for power in range(4, -1, -1)]
    rows, before = [], 0
    while process.poll() is None and marks:
        memory = peak(process.pid)
        time.sleep(1)
        done, now = finished(args.out_dir), time.monotonic()
        if done < marks[0]:
            continue
        rows.append(
            [
                f"{done:,}",
                f"{now - begin:.0f}",
                f"{1000 * (now - last) / (done - before):.0f}",
                f"{memory:.0f}",
                f"{os.getloadavg()[0]:.1f}",
            ]
        )
        print(", ".join(rows[-1]), flush=True)
        last, before, marks = now, done, [mark for mark in marks if mark > done]
    finish(process)
    table = time.monotonic() - last
    own = [
        store.read_result(path.parent)["seconds"]
        for path in (args.out_dir / "g").glob("*/*/result.json")
    ]
    head = [
        "runs done",
        "s since the start",
        "ms a run since the row above",
        "parent's peak, MiB",
        "load",
    ]
    return markdown(head, rows) + (
        f"{args.jobs} jobs; a run by its own record {1000 * statistics.mean(own):.0f} ms; table "
        f"and end {table:.0f} s\n"
    )


def peak(pid: int) -> float:
    """Most memory that a process has held so far, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def cpu_time() -> float:
    """Of all processes that have ended. Where a grid had less than its share of the cores, other
    work spoiled its time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("kill", "efficiency", "growth"))
    parser.add_argument("--runs", type=int, help="runs of a grid (default: 1000, 150, 10000)")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each number of jobs")
    parser.add_argument("--jobs", type=int, default=2, help="of the grid that is killed or grows")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--out-dir", type=Path, default=Path("results/grid_benchmark"))
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a markdown file to write the text to, between its marks",
    )
    args = parser.parse_args()
    if args.out:
        _pages.check(args.out, f"grid.py {args.command}")
    args.runs = args.runs or {"kill": 1000, "efficiency": 150, "growth": 10_000}[args.command]
    if args.command != "efficiency":
        args.runs -= args.runs % SEEDS
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    shutil.rmtree(args.out_dir / args.command, ignore_errors=True)
    args.out_dir /= args.command
    text = {"kill": kill, "efficiency": efficiency, "growth": growth}[args.command](args)
    print(text, end="")
    if args.out:
        _pages.write(args.out, f"grid.py {args.command}", text)


if __name__ == "__main__":
    main()

"""Grid files, and worker processes with jobs that take a moment."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import begun, environment, is_alive
from stored import experiments
from worker_jobs import do_as_named, job, noted, record_of

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.sweep import local, space
from graphgym_srnc.sweep.jobs import Limits

HERE = Path(__file__).parent
FILE = """\
# GraphGym's own comment lines
dataset.name  data  ['Cora','CiteSeer']
gnn.layers_mp l [1,2,3]
gnn.act a ['relu']

# a second space
dataset.name data ['PubMed']
   # an indented one
gnn.layers_mp l [4, 5]

"""


def grid(tmp_path: Path, text: str) -> list[space.Space]:
    path = tmp_path / "grid.txt"
    path.write_text(text, encoding="utf-8")
    return space.read(path)


def plain(settings) -> list[dict]:
    return [{point.alias: point.value for point in setting} for setting in settings]


# Grid files.


@pytest.mark.parametrize("text", [FILE, FILE.replace("\n", "\r\n"), "\ufeff" + FILE])
def test_a_file_is_the_union_of_the_products_of_its_spaces(tmp_path, text):
    (tmp_path / "grid.txt").write_bytes(text.encode())
    # GraphGym's order: the first line of a space changes fastest.
    expected = [
        {"data": data, "l": layers, "a": "relu"}
        for layers in "123"
        for data in ("Cora", "CiteSeer")
    ]
    expected += [{"data": "PubMed", "l": layers} for layers in "45"]
    spaces = space.read(tmp_path / "grid.txt")
    assert plain(space.settings(spaces)) == expected
    assert [axis.key for axis in spaces[0]] == ["dataset.name", "gnn.layers_mp", "gnn.act"]


def test_values_stay_text_and_a_setting_of_two_spaces_is_run_once(tmp_path):
    text = "a.b x [1e-3,'c d']\nc.d y [[1,2],[]]\n\na.b x [1e-3]\nc.d y [[1,2]]\n"
    found = [tuple(setting.values()) for setting in plain(space.settings(grid(tmp_path, text)))]
    assert found == [(x, y) for y in (("1", "2"), ()) for x in ("1e-3", "c d")]


@pytest.mark.parametrize(
    "text, told",
    [
        ("# nothing\n\n", "at least one line"),
        ("gnn.act a", "1: 'gnn.act a' is not valid"),
        ("a.b x []", "is not valid. Write key"),
        ("a.b x [1", "is not valid"),
        ("a.b x [{a: 1}]", "is not valid"),
        ("a.b x-y [1]", "an alias consists of letters"),
        ("seed s [1,2]", "the key seed cannot be varied"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, told):
    with pytest.raises(InputError, match=f"^grid: .*{told}"):
        grid(tmp_path, text)


def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.txt", tmp_path, tmp_path / "binary.txt"):
        with pytest.raises(InputError, match="readable text file"):
            space.read(path)


# Names.


def test_graphgym_reads_the_values_back_from_the_name(tmp_path):
    from torch_geometric.graphgym.utils.agg_runs import name_to_dict

    text = (
        "dataset.name data ['Cora','my graph.v2']\noptim.base_lr lr [-1,1e-3]\n"
        "srnc.resolutions r [[1.0],[],[1,2]]\n"
        "cfg c ['paper/open_set/cora-srnc','x\\y-z.yaml']\n"
    )
    settings = space.settings(grid(tmp_path, text))
    names = [space.name("my-base", setting) for setting in settings]
    assert len(set(names)) == len(settings) == 2 * 2 * 3 * 2
    words = {"my graph.v2": "my_graph.v2", "paper/open_set/cora-srnc": "cora_srnc"}
    words |= {"x\\y-z.yaml": "y_z", "-1": -1, "1e-3": 0.001, ("1.0",): (1.0,), ("1", "2"): (1, 2)}
    for name, setting in zip(names, settings):
        store.check_name(name)
        assert name.startswith("my_base-data=")
        values = {point.alias: words.get(point.value, point.value) for point in setting}
        assert name_to_dict(name) == values


@pytest.mark.parametrize(
    "value, word", [("a/b", "a_b"), ("..", ".."), ("", "none"), ("a\tb\x00", "a_b_")]
)
def test_a_value_is_never_a_path(value, word):
    name = space.name("base", (space.Point("a.b", "x", value),))
    assert name == f"base-x={word}"
    store.check_name(name)


# Worker processes.


def test_workers_stay_warm_and_each_job_ends_once(tmp_path):
    jobs = [job("short", tmp_path, seed) for seed in range(30)]
    outcomes = list(local.run(jobs, do_as_named, Limits(), workers=2))
    assert sorted(outcome.job.seed for outcome in outcomes) == list(range(30))
    assert {(outcome.state, outcome.attempts) for outcome in outcomes} == {("done", 1)}
    workers = Counter(outcome.message for outcome in outcomes)
    assert len(workers) <= 2
    assert not any(is_alive(int(pid)) for pid in workers)
    assert list(local.run([], do_as_named, Limits())) == []


def test_a_failure_is_told_and_the_others_go_on(tmp_path):
    expected = {"fails": ("failed", 1), "busy": ("busy", 1), "short": ("done", 1)}
    expected |= dict.fromkeys(["killed", "exits", "crashes", "sleeps"], ("failed", 2))
    expected |= dict.fromkeys(["killed once", "sleeps once"], ("done", 2))
    jobs = [job(kind, tmp_path) for kind in expected]
    found = list(local.run(jobs, do_as_named, Limits(seconds=2.0, retries=1), workers=2))
    assert {one.job.name: (one.state, one.attempts) for one in found} == expected
    assert len(found) == len(expected)
    told = {one.job.name: one.message for one in found}
    assert "raise KeyError" in told["fails"] and told["fails"].endswith("'no such thing'\n")
    assert "exit status -9" in told["killed"] and "a last word" in told["killed"]
    # The line of Python at which native code crashed.
    assert "Segmentation fault" in told["crashes"] and "in do_as_named" in told["crashes"]
    assert "exit status 3" in told["exits"] and "free" in told["busy"]
    assert told["sleeps"] == "out of time: more than 2 s"


# Kills: a grid of short runs in a process of its own, which stores them as real ones.

TOY = """\
import sys, time
sys.path.insert(0, {here!r})
import worker_jobs
if __name__ == "__main__":
    worker_jobs.run_grid(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


def start(
    tmp_path: Path, root: Path, settings: int, seeds: int, seconds: float = 0.005
) -> subprocess.Popen:
    script = tmp_path / "toy.py"
    script.write_text(TOY.format(here=str(HERE)))
    (tmp_path / "tmp").mkdir(exist_ok=True)
    env = environment() | {"TOY_SECONDS": str(seconds), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, str(script), str(root), str(settings), str(seeds)]
    return begun(command, env=env, start_new_session=True)


def stored(root: Path) -> dict:
    return {
        (name, seed): result["test"]
        for name, results in experiments(root).items()
        for seed, result in results.items()
    }


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_all_runs_are_there_once(tmp_path):
    root = tmp_path / "grid"
    generator = random.Random(0)
    counts = []
    for _ in range(6):
        process = start(tmp_path, root, 12, 5)
        first = process.stdout.readline()
        time.sleep(generator.uniform(0.0, 0.15))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        counts.append(len(stored(root)))
        assert first or counts[-1] == 60
    assert counts == sorted(counts) and 0 < counts[0] < 60
    process = start(tmp_path, root, 12, 5)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert stored(root) == {
        (f"toy-x={number}", seed): record_of(number, seed)["test"]
        for number, seed in itertools.product(range(12), range(5))
    }
    # A run that was noted is never run again; one is not noted if the kill fell between its result
    # and the note.
    assert max(Counter(noted(root, "done")).values()) == 1
    assert {path.name for path in root.iterdir()} == {f"toy-x={number}" for number in range(12)}


@pytest.mark.slow
def test_workers_end_in_the_middle_of_a_run_when_their_parent_is_killed(tmp_path):
    process = start(tmp_path, tmp_path / "grid", 2, 2, seconds=60)
    while process.poll() is None and len(noted(tmp_path / "grid", "pids")) < 2:
        time.sleep(0.02)
    workers = set(map(int, noted(tmp_path / "grid", "pids")))
    assert len(workers) == 2 and all(map(is_alive, workers))
    process.kill()
    deadline = time.monotonic() + 5
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_alive, workers)) and not list((tmp_path / "tmp").iterdir())
    process.communicate()

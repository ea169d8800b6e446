"""``graphgym-srnc grid`` as a user types it. One grid is run by two commands at once in processes
of their own; the rest runs here."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from graphgym_srnc.cli.main import main
from graphgym_srnc.core.environment import peak_memory
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.gym import config_root, load_config
from graphgym_srnc.io import store
from graphgym_srnc.sweep import estimate, local, plan, space, worker
from graphgym_srnc.sweep.jobs import Job, Limits, Outcome, attempt

pytestmark = pytest.mark.usefixtures("unchanged_globals")

SRC = Path(__file__).parent.parent
SMALL = [
    "synthetic.num_nodes",
    "300",
    "synthetic.num_val",
    "60",
    "synthetic.num_test",
    "100",
    "train.max_episodes",
    "1",
    "erm.steps",
    "5",
    "pgl.steps",
    "5",
    "srnc.pretrain_steps",
    "5",
    "srnc.steps",
    "5",
]
GRID = """\
train.mode       m  ['erm','pgl']
gnn.dim_inner    d  [8,16]
train.selection  s  ['target_val']

# A task of one graph has no held-out source nodes, which only shows when the method starts.
train.mode       m  ['srnc']
gnn.dim_inner    d  [8]
train.selection  s  ['target_val','source_val']
"""
REFUSED = "erm-m=srnc-d=8-s=source_val"
CELLS = {
    "erm-m=erm-d=8-s=target_val",
    "erm-m=erm-d=16-s=target_val",
    "erm-m=pgl-d=8-s=target_val",
    "erm-m=pgl-d=16-s=target_val",
    "erm-m=srnc-d=8-s=target_val",
}


def words(folder: Path, *more: str, text: str | None = GRID) -> list[str]:
    """A command on ``<folder>/results/g``."""
    if text is not None:
        (folder / "grid.txt").write_text(text)
    return [
        "grid",
        "--cfg",
        "testing/erm",
        "--grid",
        str(folder / "grid.txt"),
        "--repeat",
        "2",
        "--out-dir",
        str(folder / "results"),
        "--name",
        "g",
        *more,
        *SMALL,
    ]


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> tuple[Path, list[tuple[int, str, str]]]:
    """A directory that two commands filled at the same time, and what became of them: exit status,
    output, errors."""
    folder = tmp_path_factory.mktemp("shared")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "graphgym_srnc", *words(folder, "--jobs", "1", "--resume")]
    both = [
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    ends = [process.communicate(timeout=300) for process in both]
    return folder, [(process.returncode, *end) for process, end in zip(both, ends)]


@pytest.fixture
def filled(shared, tmp_path) -> Path:
    """A copy of it."""
    shutil.copytree(shared[0], tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def inline(monkeypatch) -> list[str]:
    """Runs are done in this process; gives those that were, as ``name/seed``."""
    done: list[str] = []

    def run(jobs, execute, limits, workers=1):
        for job in jobs:
            outcome = Outcome(job, *attempt(partial(execute, job)))
            done.append(f"{job.name}/{job.seed}")
            yield outcome

    monkeypatch.setattr(local, "run", run)
    # A worker leaves out of the collection what was there at its start; here that is all of pytest.
    monkeypatch.setattr(worker, "_release_memory", lambda: None)
    return done


def results(folder: Path) -> dict[str, dict[int, store.Result]]:
    return dict(store.experiments(folder / "results" / "g"))


def numbers(result: store.Result) -> dict:
    history = [
        {key: value for key, value in episode.items() if key != "seconds"}
        for episode in result["history"]
    ]
    return {
        key: result[key] for key in ("val", "test", "selected", "split", "digest", "params")
    } | {"history": history}


def stamps(folder: Path) -> dict[str, int]:
    return {
        str(file.relative_to(folder)): file.stat().st_mtime_ns
        for file in folder.rglob("result.json")
    }


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# What two commands on one directory leave.


def test_two_commands_at_once_run_each_once(shared):
    folder, ends = shared
    assert [end[0] for end in ends] == [1, 1], ends
    found = results(folder)
    assert set(found) == CELLS and all(list(seeds) == [0, 1] for seeds in found.values())
    # A process numbers its event files. None is missing, so no run was done and then replaced.
    marks = [
        path.name.split(".")[-2:]
        for path in (folder / "results").glob("g/*/[01]/events.out.tfevents.*")
    ]
    assert len(marks) == 10
    for process, count in Counter(process for process, _ in marks).items():
        assert sorted(int(number) for other, number in marks if other == process) == list(
            range(count)
        )
    for _, out, err in ends:
        assert "6 settings, 12 runs" in out and "12 of 12 runs, 2 failed" in out
        assert "\x1b" not in out
        assert (
            f"{REFUSED}, seed 1: FAILED: graphgym_srnc.core.errors.InputError: train.selection"
            in out
        )
        assert err.count("2 runs failed") == 1 and "Traceback" not in err


def test_a_failed_run_leaves_its_traceback(shared):
    folder = shared[0] / "results" / "g" / REFUSED
    for seed in "01":
        story = (folder / seed / "error.txt").read_text()
        assert story.startswith("try 1: Traceback") and "in execute" in story
        assert "held-out source nodes" in story
    assert not (folder / "agg").exists()


def test_the_numbers_are_those_of_run(shared, tmp_path):
    found = results(shared[0])
    for mode, width in (("srnc", 8), ("erm", 16), ("pgl", 8)):
        name = f"erm-m={mode}-d={width}-s=target_val"
        assert (
            main(
                [
                    "run",
                    "--cfg",
                    "testing/erm",
                    "--repeat",
                    "2",
                    "--out-dir",
                    str(tmp_path),
                    "--name",
                    name,
                    "--no-tensorboard",
                    "--no-figures",
                    *SMALL,
                    "train.mode",
                    mode,
                    "gnn.dim_inner",
                    str(width),
                ]
            )
            == 0
        )
        alone = store.read_results(tmp_path / name)
        assert {seed: numbers(result) for seed, result in found[name].items()} == {
            seed: numbers(result) for seed, result in alone.items()
        }


def test_a_run_holds_its_whole_record(shared):
    home = shared[0] / "results" / "g" / "erm-m=pgl-d=16-s=target_val"
    result = store.read_result(home / "1")
    assert result["config"]["gnn"]["dim_inner"] == 16 and result["method"] == "pgl"
    assert len(result["split"]) > 10
    assert result["versions"]["torch"] and "commit" in result and result["seconds"] > 0
    assert result["peak_memory_mib"] > 50
    cfg = load_config(str(home / "config.yaml"))
    assert (cfg.train.mode, cfg.gnn.dim_inner, cfg.pgl.steps, cfg.synthetic.num_nodes) == (
        "pgl",
        16,
        5,
        300,
    )


def test_graphgym_and_our_table_agree_on_each_cell(filled):
    pytest.importorskip("pandas")
    from torch_geometric.graphgym.utils.agg_runs import agg_batch, name_to_dict

    from graphgym_srnc.report.summary import summarise

    home = filled / "results" / "g"
    ours = {
        tuple(name_to_dict(name).values()): summarise(name, runs)
        for name, runs in results(filled).items()
    }
    agg_batch(str(home))
    for split in ("train", "val", "test"):
        with open(home / "agg" / f"{split}_best.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(ours) == 5
        for row in rows:
            cell = ours[row["m"], int(row["d"]), row["s"]]
            if split == "test":
                for key in (
                    "micro_f1",
                    "macro_f1",
                    "macro_recall",
                    "unknown_recall",
                    "unknown_auroc",
                ):
                    assert float(row[key]) == round(cell[key], 4)
                    assert float(row[f"{key}_std"]) == round(cell[f"{key}_std"], 4)


# Resume.


def test_resume_runs_again_what_is_torn_and_nothing_else(filled, inline, capsys):
    before, old = stamps(filled), results(filled)
    home = filled / "results" / "g"
    torn = home / "erm-m=erm-d=8-s=target_val" / "1"
    garbage = home / "erm-m=pgl-d=16-s=target_val" / "0"
    (torn / "result.json").write_text((torn / "result.json").read_text()[:500])
    (garbage / "result.json").write_bytes(b"\x00\xffgarbage")
    shutil.rmtree(home / "erm-m=srnc-d=8-s=target_val" / "1")
    shutil.rmtree(home / "erm-m=srnc-d=8-s=target_val" / "agg")
    assert main(words(filled, "--resume")) == 1
    again = [
        "erm-m=erm-d=8-s=target_val/1",
        "erm-m=pgl-d=16-s=target_val/0",
        "erm-m=srnc-d=8-s=target_val/1",
    ]
    assert sorted(inline) == sorted([*again, f"{REFUSED}/0", f"{REFUSED}/1"])
    assert "12 runs, 7 of them finished" in capsys.readouterr().out
    after = stamps(filled)
    assert {path for path in before if before[path] != after[path]} == {
        f"results/g/{run}/result.json" for run in again
    }
    new = results(filled)
    assert {
        name: {seed: numbers(run) for seed, run in runs.items()} for name, runs in new.items()
    } == {name: {seed: numbers(run) for seed, run in runs.items()} for name, runs in old.items()}
    assert (home / "erm-m=srnc-d=8-s=target_val" / "agg" / "test" / "best.json").is_file()


def test_a_longer_grid_runs_what_is_new(filled, inline):
    before = stamps(filled)
    text = GRID.replace("[8,16]", "[8,12,16]").partition("\n\n")[0]
    assert main(words(filled, "--resume", "--repeat", "3", text=text)) == 0
    assert sorted(inline) == sorted(
        [
            f"erm-m={mode}-d={width}-s=target_val/{seed}"
            for mode in ("erm", "pgl")
            for width in (8, 12, 16)
            for seed in range(3)
            if width == 12 or seed == 2
        ]
    )
    assert {path: stamps(filled)[path] for path in before} == before


def test_a_run_is_known_by_its_config_not_its_name(filled, inline, capsys):
    old = results(filled)
    text = GRID.replace(" m ", " method ").replace(" d ", " width ")
    assert main(words(filled, "--resume", text=text)) == 1
    assert [run.split("/")[0] for run in inline] == [
        REFUSED.replace("-m=", "-method=").replace("-d=", "-width=")
    ] * 2
    assert "10 finished runs with the same config and seed" in capsys.readouterr().out
    new = results(filled)
    renamed = {
        name.replace("-m=", "-method=").replace("-d=", "-width="): runs
        for name, runs in old.items()
    }
    assert new == old | renamed
    assert (filled / "results" / "g" / next(iter(renamed)) / "agg" / "test" / "best.json").is_file()


def test_another_base_is_refused_and_nothing_is_touched(filled, inline, capsys):
    before = stamps(filled)
    for more in (["--resume"], []):
        assert main(words(filled, *more, "optim.base_lr", "0.5")) == 2
        assert "optim.base_lr: 0.01 before, 0.5 now" in (err := capsys.readouterr().err)
        assert err.count("\n") == 1
    assert main(words(filled)) == 2
    assert "--resume" in (err := capsys.readouterr().err) and err.count("\n") == 1
    assert stamps(filled) == before and inline == []


def test_overwrite_runs_all_and_removes_results_of_another_config(filled, inline):
    before, old = stamps(filled), results(filled)
    text = "train.mode m ['erm']\ngnn.dim_inner d [8,16]\ntrain.selection s ['target_val']\n"
    assert main(words(filled, "--overwrite", text=text)) == 0
    assert len(inline) == 4 and results(filled).keys() == old.keys()
    new = results(filled)
    for name in old:
        assert [numbers(run) for run in new[name].values()] == [
            numbers(run) for run in old[name].values()
        ]
        for seed in (0, 1):
            path = f"results/g/{name}/{seed}/result.json"
            assert (stamps(filled)[path] != before[path]) == ("m=erm" in name)
    assert (
        main(words(filled, "--overwrite", "--repeat", "1", "train.patience", "7", text=text)) == 0
    )
    for name in ("erm-m=erm-d=8-s=target_val", "erm-m=erm-d=16-s=target_val"):
        assert {
            seed: run["config"]["train"]["patience"] for seed, run in results(filled)[name].items()
        } == {0: 7}


def test_runs_that_another_process_holds_are_waited_for(filled, inline, capsys, monkeypatch):
    monkeypatch.setattr("graphgym_srnc.sweep.execute.WAIT_SECONDS", 0.05)
    text = "train.mode m ['erm']\ngnn.dim_inner d [8]\ntrain.selection s ['target_val']\n"
    home = filled / "results" / "g" / "erm-m=erm-d=8-s=target_val"
    whole = [(home / str(seed) / "result.json").read_text() for seed in (0, 1)]
    for seed in (0, 1):
        (home / str(seed) / "result.json").unlink()
    place = store.Experiment(filled / "results" / "g", home.name, json.loads(whole[0])["config"])
    begun = threading.Event()

    def hold() -> None:
        with place.claim(0), place.claim(1):
            begun.set()
            while len(inline) < 2:
                time.sleep(0.01)
            # One of them was finished there, the other was not.
            (home / "0" / "result.json").write_text(whole[0])

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    assert main(words(filled, "--resume", text=text)) == 0
    thread.join()
    assert inline == [f"{home.name}/0", f"{home.name}/1", f"{home.name}/1"]
    assert "another process, which runs 2 of these runs" in capsys.readouterr().out
    assert (home / "0" / "result.json").read_text() == whole[0]
    assert numbers(store.read_result(home / "1")) == numbers(json.loads(whole[1]))


def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch, capsys):
    def run(jobs, execute, limits, workers=1):
        yield Outcome(jobs[0], *attempt(partial(execute, jobs[0])))
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "run", run)
    assert main(words(tmp_path)) == 130
    assert "--resume" in capsys.readouterr().err
    assert [list(runs) for runs in results(tmp_path).values()] == [[0]]
    assert (
        tmp_path / "results" / "g" / "erm-m=erm-d=8-s=target_val" / "agg" / "test" / "best.json"
    ).is_file()


def test_a_full_disk_ends_the_grid_in_one_line(tmp_path, inline, monkeypatch, capsys):
    real, text = os.fsync, "gnn.dim_inner d [8,12]\n"

    def full(file: int) -> None:
        if len(inline) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    assert main(words(tmp_path, text=text)) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("error: out_dir") and "No space left on device" in err
    assert "Traceback" not in err
    assert [list(runs) for runs in results(tmp_path).values()] == [[0, 1]]
    monkeypatch.setattr(os, "fsync", real)
    assert main(words(tmp_path, "--resume", text=text)) == 0
    assert {name: list(runs) for name, runs in results(tmp_path).items()} == {
        "erm-d=8": [0, 1],
        "erm-d=12": [0, 1],
    }


# Before the first run.


def test_runs_of_other_data_under_the_same_name_are_refused(tmp_path, inline, capsys):
    def graph(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        y = torch.arange(90) % 3
        edge_index = torch.randint(90, (2, 400), generator=generator)
        torch.save(
            Data(x=torch.rand(90, 5, generator=generator), edge_index=edge_index, y=y),
            tmp_path / "mine.pt",
        )

    text = "erm.steps T [2,3]"
    more = ["--resume", "dataset.format", "file", "dataset.name", str(tmp_path / "mine.pt")]
    graph(0)
    assert main(words(tmp_path, *more, text=text)) == 0, capsys.readouterr().err
    assert "synthetic.num_nodes" in capsys.readouterr().err  # a note: the shift is file
    before = stamps(tmp_path)
    graph(1)
    assert main(words(tmp_path, *more, "--repeat", "3", text=text)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "used other data" in err and stamps(tmp_path) == before
    assert len(inline) == 4


def test_dry_run_lists_each_difference_and_writes_nothing(tmp_path, capsys):
    assert main(words(tmp_path, "--dry-run", "--repeat", "3")) == 0
    out = capsys.readouterr().out
    assert "6 settings, 18 runs" in out and "18 to run" in out
    assert "at a time; the time is unknown until a similar run has finished" in out
    assert (
        "erm-m=pgl-d=8-s=target_val: gnn.dim_inner 8, train.mode pgl; seeds 0 to 2, 3 to run" in out
    )
    assert "erm-m=erm-d=16-s=target_val: the base config;" in out
    assert tree(tmp_path) == {"grid.txt"}


def test_a_dry_run_after_the_grid_tells_what_is_left_and_how_long(filled, capsys):
    before = tree(filled)
    assert main(words(filled, "--dry-run", "--resume", "--repeat", "5", "--jobs", "3")) == 0
    out = capsys.readouterr().out
    assert "6 settings, 30 runs, 10 of them finished" in out
    assert "20 to run, 3 at a time: about " in out and "time is unknown" not in out
    assert tree(filled) == before


def test_limits_and_jobs_reach_the_executor(tmp_path, monkeypatch):
    told = []

    def run(jobs, execute, limits, workers=1):
        told.append((len(jobs), limits, workers))
        yield from (Outcome(job, "failed", 1.0, "out of time: more than 5 s", 4) for job in jobs)

    monkeypatch.setattr(local, "run", run)
    more = ["--time-limit", "5", "--memory-limit", "900", "--retries", "3", "--jobs", "2"]
    assert main(words(tmp_path, *more, text="gnn.dim_inner d [8,12]")) == 1
    assert told == [(4, Limits(5.0, 900.0, 3), 2)]
    assert (
        tmp_path / "results" / "g" / "erm-d=12" / "1" / "error.txt"
    ).read_text() == "try 4: out of time: more than 5 s\n"
    assert (
        main(words(tmp_path, *more, "--jobs", "64", "--resume", text="gnn.dim_inner d [8,12]")) == 1
    )
    assert told[1][2] == 4


def test_a_sample_of_a_grid(tmp_path, capsys):
    assert main(words(tmp_path, "--dry-run", "--sample", "3", "--sample-alias", "m")) == 0
    out = capsys.readouterr().out
    assert "erm-m=erm-" in out and "erm-m=pgl-" in out
    assert main(words(tmp_path, "--dry-run", "--sample-alias", "m")) == 2
    assert "no effect without --sample" in capsys.readouterr().err


ONE = "gnn.dim_inner x [8]"


@pytest.mark.parametrize(
    "text, more, told",
    [
        ("gnn.no_such x [1]", [], "gnn.no_such"),
        ("gnn.dim_iner x [1]", [], "gnn.dim_inner"),
        ("gnn.dim_inner x ['w']", [], "an integer"),
        ("gnn.dim_inner x [[1,2]]", [], "an integer"),
        ("gnn.dim_inner x [0]", [], "1 or more"),
        (f"gnn.dropout x [0.1]\n{ONE}", [], "line 2"),
        ("train.mode m ['no_such']", [], "train.mode"),
        ("erm.steps x [-1]", [], "erm.steps"),
        ("", [], "at least one line"),
        ("# nothing", [], "at least one line"),
        ("gnn.dim_inner x []", [], "at least one value"),
        ("cfg c ['testing/no_such']", [], "--cfg"),
        ("dataset.name data ['Cora','cora']", [], "have the same name"),
        ("optim.base_lr lr [0.1,0.10]", [], "have the same config"),
        ("cfg c ['testing/erm','{root}/testing/erm.yaml']", [], "have the same name"),
        ("srnc.rounds T [3,4]", [], "have the same config"),
        ("dataset.name data ['{long}']", [], "at most 200"),
        (ONE, ["--grid", "no/such"], "--grid"),
        (ONE, ["--cfg", "no/such"], "--cfg"),
        (ONE, ["--name", "../up"], "plain file name"),
        (ONE, ["--repeat", "0"], "--repeat"),
        (ONE, ["--jobs", "-1"], "--jobs"),
        (ONE, ["--retries", "-1"], "--retries"),
        (ONE, ["--time-limit", "-1"], "--time-limit"),
        (ONE, ["--sample", "0"], "--sample"),
        (ONE, ["--memory-limit", "-1"], "--memory-limit"),
        (ONE, ["--sample", "1", "--sample-alias", "y"], "--sample-alias"),
        (ONE, ["gnn.no_such", "1"], "gnn.no_such"),
    ],
)
def test_bad_input_is_one_line_before_the_first_run(tmp_path, capsys, inline, text, more, told):
    text = text.replace("{long}", "x" * 300).replace("{root}", str(config_root()))
    assert main(words(tmp_path, *more, text=text)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith("error: ") and told in err
    assert tree(tmp_path) == {"grid.txt"} and inline == []


def test_a_place_with_other_things_in_it_is_refused(tmp_path, capsys, inline):
    mine = tmp_path / "results" / "g" / "erm-d=8" / "0" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for more in ([], ["--resume"]):
        assert main(words(tmp_path, *more, text="gnn.dim_inner d [8]")) == 2
        assert "this program did not write" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "results").write_text("a file")
    assert main(words(tmp_path, text="gnn.dim_inner d [8]")) == 2
    assert "cannot be written" in capsys.readouterr().err and inline == []


def test_time_is_judged_by_the_median_of_like_runs(gym):
    def result(method: str, backbone: str, name: str, seconds: float) -> dict:
        return {
            "method": method,
            "backbone": backbone,
            "seconds": seconds,
            "config": {"dataset": {"format": "synthetic", "name": name}},
        }

    cfg = load_config(None, ["train.mode", "erm"])
    setting = (space.Point("train.mode", "m", "erm"),)
    cell = plan.Cell(cfg, None, range(6), [0, 1, 2, 3, 4], setting)
    known = [result("erm", "gcnconv", "synthetic", seconds) for seconds in (1.0, 2.0, 60.0)]
    others = [
        result("erm", "gatconv", "synthetic", 9.0),
        result("pgl", "gcnconv", "synthetic", 9.0),
        result("erm", "gcnconv", "Cora", 9.0),
    ]
    assert estimate.seconds([cell], known + others, 2) == (5 * 2.0 / 2, 0)
    assert estimate.seconds([cell], others, 1) == (5 * 9.0, 0)
    assert estimate.seconds([cell], others[1:], 1) == (0.0, 5)
    spans = {0.2: "1 s", 50: "50 s", 700: "12 min", 5000: "83 min", 12000: "3 h 20 min"}
    assert {seconds: estimate.span(seconds) for seconds in spans} == spans


# What else a run of a grid is.


def test_the_peak_of_a_run_is_not_that_of_a_larger_one_before_it(gym, tmp_path):
    if peak_memory() is None or not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system does not tell the peak of a part of a process")

    def peak(seed: int, nodes: int, features: int) -> float:
        cfg = load_config(
            "testing/erm",
            [*SMALL, "synthetic.num_nodes", str(nodes), "synthetic.num_features", str(features)],
        )
        cells = plan.cells(
            [(space.Point("synthetic.num_nodes", "n", str(nodes)),)],
            "testing/erm",
            "erm",
            [*SMALL, "synthetic.num_features", str(features), "seed", str(seed)],
            tmp_path,
            1,
        )
        (job,) = plan.jobs(cells, {"tensorboard": False})
        assert worker.execute(job).startswith(f"seed {seed}: kept episode")
        assert cfg.synthetic.num_features == features
        return store.read_result(tmp_path / job.name / str(seed))["peak_memory_mib"]

    peak(0, 300, 100)
    small, large, again = peak(1, 300, 100), peak(2, 20_000, 2000), peak(3, 300, 100)
    assert large > small + 100 and again < small + 0.3 * (large - small)


def test_a_config_other_than_the_planned_one_is_refused(gym, tmp_path):
    from graphgym_srnc.core.errors import InputError

    cells = plan.cells(
        [(space.Point("gnn.dim_inner", "d", "8"),)], "testing/erm", "erm", SMALL, tmp_path, 1
    )
    (job,) = plan.jobs(cells, {"tensorboard": False})
    with pytest.raises(InputError, match="the digest of the plan"):
        worker.execute(job._replace(digest="0" * 64))
    assert not tree(tmp_path)
    assert worker.execute(job) and worker.execute(job).startswith("seed 0")


def test_progress_without_a_terminal_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr("graphgym_srnc.core.progress.EVERY", 0.0)
    with GridProgress(3) as progress:
        for number in range(3):
            time.sleep(0.01)
            progress.finish(f"run {number}", failed=number == 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 of 3 runs, 0 failed") and "left" in lines[2] and "run 1" in lines
    assert lines[-1].startswith("3 of 3 runs, 1 failed") and "run 0" not in lines
    assert "\x1b" not in "".join(lines)


def test_progress_on_a_terminal_is_a_bar_with_the_time_left():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with GridProgress(2, out) as progress:
        progress.finish("run [0]", failed=True)
    text = out.getvalue()
    assert "\x1b" in text and "1/2" in text and "left" in text and "(1 failed)" in text
    assert "run [0]" in text


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (config_root() / "grids").glob("*.txt"))
)
def test_a_shipped_grid_loads_as_a_whole(gym, tmp_path, name):
    file = plan.find(f"grids/{name}")
    assert file == config_root() / "grids" / f"{name}.txt"
    spaces = space.read(file)
    # GraphGym's agg_batch sorts by the columns of one of the folders.
    assert len({tuple(axis.alias for axis in part) for part in spaces}) == 1
    cells = plan.cells(space.settings(spaces), None, "default", [], tmp_path, 10)
    expected = {
        "open_set": 27,
        "close_set_citation": 114,
        "close_set_arxiv": 57,
        "close_set_arxiv_like": 57,
        "clusters": 14,
        "testing": 8,
        "ocnnc": 42,
        "open_set_baselines": 60,
        "close_set_variants": 12,
        "localized": 33,
        "unlabelled_class": 18,
    }
    assert len(cells) == expected[name] and not tree(tmp_path)
    if name == "open_set":
        rows = Counter(
            (
                cfg.dataset.name,
                cfg.train.mode,
                cfg.gnn.layer_type,
                cfg.srnc.pseudo_labels,
                cfg.train.max_episodes,
            )
            for cfg in (cell.cfg for cell in cells)
        )
        assert set(rows.values()) == {1}
        assert {row[0] for row in rows} == {"Cora", "CiteSeer", "PubMed"}
        for cell in cells:
            # But for the two ablations each is a shipped config.
            plain = load_config(cell.setting[0].value)
            changed = set(store.difference(plain, cell.cfg))
            assert changed <= {"srnc.pseudo_labels", "train.max_episodes"} and len(changed) <= 1
    if name == "ocnnc":
        assert len({(cell.cfg.ocnnc.source, cell.cfg.ocnnc.target) for cell in cells}) == 6
        assert all(cell.cfg.ocnnc.source != cell.cfg.ocnnc.target for cell in cells)
    if name == "close_set_citation":
        assert (
            len({(cell.cfg.cross_graph.source, cell.cfg.cross_graph.target) for cell in cells}) == 6
        )
        assert all(cell.cfg.cross_graph.source != cell.cfg.cross_graph.target for cell in cells)


def test_a_job_is_plain_data(gym, tmp_path):
    setting = (space.Point("cfg", "c", "testing/pgl"), space.Point("gnn.dim_inner", "d", "8"))
    cells = plan.cells([setting], None, "default", SMALL, tmp_path, 2)
    first, second = plan.jobs(cells, {"tensorboard": True}, figures=True)
    assert (first.name, first.seed, second.seed) == ("default-c=pgl-d=8", 0, 1)
    assert first.extras == {"tensorboard": True, "figures": True}
    assert second.extras["figures"] is False
    assert first.varied == {
        "method": "pgl",
        "backbone": "gcnconv",
        "data": "synthetic/synthetic",
        "cfg": "testing/pgl",
        "gnn.dim_inner": "8",
        "seed": 0,
    }
    assert Job(*json.loads(json.dumps(first))) == first

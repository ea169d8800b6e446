"""``graphgym-srnc grid`` as a user types it, with the runs in this process."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import make_graph, refusal, stamps
from stored import experiments, run_in_this_process

from graphgym_srnc.cli.main import main
from graphgym_srnc.gym import config_root, load_config
from graphgym_srnc.io import records, store
from graphgym_srnc.report.frame import collect
from graphgym_srnc.sweep import local, runs, space
from graphgym_srnc.sweep.jobs import Limits, Outcome

pytestmark = pytest.mark.usefixtures("hardly_pretrained", "unchanged_globals")

SMALL = (
    "synthetic.num_nodes 300 synthetic.num_val 60 synthetic.num_test 100 train.max_episodes 1 "
    "erm.steps 5 pgl.steps 5 srnc.pretrain_steps 5 srnc.steps 5"
).split()
GRID = """\
train.mode       m  ['erm','pgl']
gnn.dim_inner    d  [8,16]
train.selection  s  ['target_val']

# A task of one graph has no held-out source nodes, which only shows when the method starts.
train.mode       m  ['srnc']
gnn.dim_inner    d  [8]
train.selection  s  ['target_val','source_val']
"""
ERM = "train.mode m ['erm']\ngnn.dim_inner d [8]\ntrain.selection s ['target_val']\n"
REFUSED = "erm-m=srnc-d=8-s=source_val"
CELLS = {f"erm-m={mode}-d={width}-s=target_val" for mode in ("erm", "pgl") for width in (8, 16)}
CELLS.add("erm-m=srnc-d=8-s=target_val")


def words(folder: Path, *more: str, text: str | None = GRID) -> list[str]:
    """A command on ``<folder>/results/g``."""
    if text is not None:
        (folder / "grid.txt").write_text(text)
    places = ["--grid", str(folder / "grid.txt"), "--out-dir", str(folder / "results")]
    return ["grid", "--cfg", "testing/erm", "--repeat", "2", "--name", "g", *places, *more, *SMALL]


@pytest.fixture
def runs_done(monkeypatch) -> list[str]:
    return run_in_this_process(monkeypatch)


@pytest.fixture(scope="module")
def finished_grid(tmp_path_factory) -> Path:
    """A finished grid, two of whose runs failed."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        run_in_this_process(patch)
        assert main(words(folder)) == 1
    (folder / "out").write_text(out.getvalue())
    return folder


@pytest.fixture
def copied_grid(finished_grid, tmp_path) -> Path:
    """A copy of it."""
    shutil.copytree(finished_grid, tmp_path / "copy")
    return tmp_path / "copy"


def results(folder: Path) -> dict[str, dict[int, records.Result]]:
    return experiments(folder / "results" / "g")


def numbers(result: records.Result | None) -> dict:
    assert result is not None
    history = [{**episode, "seconds": 0} for episode in result["history"]]
    keys = ("val", "test", "selected", "split", "digest", "params")
    return {key: result[key] for key in keys} | {"history": history}


def all_numbers(folder: Path) -> dict[str, list[dict]]:
    return {name: list(map(numbers, seeds.values())) for name, seeds in results(folder).items()}


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# What a grid leaves.


def test_a_grid_stores_every_run_and_tells_of_failures(finished_grid):
    found = results(finished_grid)
    out = (finished_grid / "out").read_text()
    assert set(found) == CELLS and all(list(seeds) == [0, 1] for seeds in found.values())
    assert "6 settings, 12 runs; 12 to run" in out and "12 of 12 runs, 2 failed" in out
    error = "graphgym_srnc.errors.InputError: train.selection"
    assert f"{REFUSED}, seed 1: FAILED: {error}" in out and "\x1b" not in out
    story = (finished_grid / "results" / "g" / REFUSED / "1" / "error.txt").read_text()
    assert story.startswith("try 1: Traceback") and "held-out source nodes" in story
    assert not (finished_grid / "results" / "g" / REFUSED / "agg").exists()

    home = finished_grid / "results" / "g" / "erm-m=pgl-d=16-s=target_val"
    cfg = load_config(str(home / "config.yaml"))
    assert (cfg.train.mode, cfg.gnn.dim_inner, cfg.synthetic.num_nodes) == ("pgl", 16, 300)


def test_the_numbers_are_those_of_run(finished_grid, tmp_path):
    name = "erm-m=srnc-d=8-s=target_val"
    command = "run --cfg testing/erm --repeat 2 --no-tensorboard --no-figures".split()
    settings = [*SMALL, "train.mode", "srnc", "gnn.dim_inner", "8"]
    assert main([*command, "--out-dir", str(tmp_path), "--name", name, *settings]) == 0
    alone = records.read_results(tmp_path / name)
    assert all_numbers(finished_grid)[name] == list(map(numbers, alone.values()))


@pytest.mark.usefixtures("without_figures")
def test_a_comparison_says_what_is_missing(copied_grid, capsys, without_figures):
    home = copied_grid / "results" / "g"
    plan = json.loads((home / "planned.json").read_text())
    assert {*plan} == {*CELLS, REFUSED} and all(seeds == [0, 1] for seeds in plan.values())
    shutil.rmtree(home / "erm-m=pgl-d=8-s=target_val")  # as if it had never begun
    missing = "g: 4 of 12 runs missing; resume the grid"
    assert main(["compare", str(home)]) == 0
    for told in (capsys.readouterr().err, " ".join(collect([home.parent]).remarks())):
        assert missing in told and "skipped 2 failed" in told
    page = copied_grid / "page.html"
    assert main(["report", str(home), "--out", str(page)]) == 0
    assert missing in page.read_text()
    capsys.readouterr()
    for wrong in ("[", "[1]", '{"a": 1}', '{"a": ["x"]}'):
        (home / "planned.json").write_text(wrong)
        told = " ".join(collect([home]).remarks())
        assert "missing" not in told and "unreadable result(s), such as" in told


# Resume.


def test_resume_runs_again_what_is_torn_and_what_is_new(copied_grid, runs_done, capsys):
    before = stamps(copied_grid, "result.json")
    old = all_numbers(copied_grid)
    home = copied_grid / "results" / "g"
    again = [f"erm-m={run}" for run in ("erm-d=8-s=target_val/1", "srnc-d=8-s=target_val/1")]
    torn = home / again[0] / "result.json"
    torn.write_text(torn.read_text()[:500])
    shutil.rmtree(home / again[1])
    shutil.rmtree(home / "erm-m=srnc-d=8-s=target_val" / "agg")
    text = GRID.replace("[8,16]", "[8,16,12]")
    assert main(words(copied_grid, "--resume", text=text)) == 1
    new = [f"erm-m={mode}-d=12-s=target_val/{seed}" for mode in ("erm", "pgl") for seed in (0, 1)]
    assert sorted(runs_done) == sorted([*again, *new, f"{REFUSED}/0", f"{REFUSED}/1"])
    assert "16 runs, 8 of them finished; 8 to run" in capsys.readouterr().out
    after = stamps(copied_grid, "result.json")
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {f"results/g/{run}/result.json" for run in again}
    assert {name: runs for name, runs in all_numbers(copied_grid).items() if name in old} == old
    assert (home / "erm-m=srnc-d=8-s=target_val" / "agg" / "test" / "best.json").is_file()


def test_another_base_is_refused_unless_overwritten(copied_grid, runs_done, capsys):
    before = stamps(copied_grid, "result.json")
    old = all_numbers(copied_grid)
    for more, told in (["optim.base_lr", "0.5"], "optim.base_lr: 0.01 before"), ([], "--resume"):
        assert told in refusal(main(words(copied_grid, *more)), capsys)
    assert stamps(copied_grid, "result.json") == before and runs_done == []

    assert main(words(copied_grid, "--overwrite", text=ERM)) == 0
    assert len(runs_done) == 2 and all_numbers(copied_grid) == old
    changed = [
        path for path, time in stamps(copied_grid, "result.json").items() if time != before[path]
    ]
    assert len(changed) == 2
    other = ["--overwrite", "train.patience", "7"]
    assert main(words(copied_grid, *other, "--repeat", "1", text=ERM)) == 2, (
        "seed 1 would be mixed in"
    )
    assert main(words(copied_grid, *other, text=ERM)) == 0
    runs = results(copied_grid)["erm-m=erm-d=8-s=target_val"].values()
    assert [run["config"]["train"]["patience"] for run in runs] == [7, 7]


def test_a_run_that_another_process_holds_is_left_to_it(copied_grid, runs_done, capsys):
    home = copied_grid / "results" / "g" / "erm-m=erm-d=8-s=target_val"
    whole = records.read_result(home / "0")
    for seed in "01":
        (home / seed / "result.json").unlink()
    with store.Experiment(home.parent, home.name, whole["config"]).claim(0):
        assert main(words(copied_grid, "--resume", text=ERM)) == 0
    out = capsys.readouterr().out
    assert f"{home.name}, seed 0: left to another process" in out and "1 of 1 runs" in out
    assert list(records.read_results(home)) == [1]


# Before the first run.


def test_runs_of_other_data_under_the_same_name_are_refused(tmp_path, runs_done, capsys):
    text = "erm.steps T [2,3]"
    more = ["--resume", "dataset.format", "file", "dataset.name", str(tmp_path / "mine.pt")]
    torch.save(graph := make_graph(), tmp_path / "mine.pt")
    assert main(words(tmp_path, *more, text=text)) == 0, capsys.readouterr().err
    assert "synthetic.num_nodes" in capsys.readouterr().err  # a note: the shift is file
    before = stamps(tmp_path, "result.json")
    graph.x = graph.x.flip(0)
    torch.save(graph, tmp_path / "mine.pt")
    error = refusal(main(words(tmp_path, *more, "--repeat", "3", text=text)), capsys)
    assert "used other data" in error and stamps(tmp_path, "result.json") == before
    assert len(runs_done) == 4


def test_dry_run_lists_each_difference_and_writes_nothing(tmp_path, copied_grid, capsys):
    assert main(words(tmp_path, "--dry-run", "--repeat", "3", "--jobs", "2")) == 0
    out = capsys.readouterr().out
    assert "6 settings, 18 runs; 18 to run, 2 at a time" in out
    changes = "gnn.dim_inner 8, train.mode pgl; seeds 0 to 2, 3 to run"
    assert f"erm-m=pgl-d=8-s=target_val: {changes}" in out
    assert "erm-m=erm-d=16-s=target_val: the base config;" in out
    assert f"\nall runs: {SMALL[0]} {SMALL[1]} " in out
    assert "compare: 3 rows need at least 7 seeds each for p ≤ 0.05 (Wil" in out
    before = tree(copied_grid)
    assert main(words(copied_grid, "--dry-run", "--resume", "--repeat", "5")) == 0
    assert "30 runs, 10 of them finished; 20 to run" in capsys.readouterr().out
    assert tree(copied_grid) == before
    assert not (tmp_path / "results").exists()


def test_limits_and_jobs_reach_the_executor(tmp_path, monkeypatch):
    told = []

    def run(jobs):
        yield from (Outcome(job, "failed", "out of time: more than 5 s", 4) for job in jobs)

    def warm(execute, limits, workers):
        told.append((limits, workers))
        return contextlib.nullcontext(run)

    monkeypatch.setattr(local, "warm", warm)
    more = "--time-limit 5 --retries 3 --jobs 2".split()
    assert main(words(tmp_path, *more, text="gnn.dim_inner d [8]")) == 1
    assert told == [(Limits(5.0, 3), 2)]
    error = (tmp_path / "results" / "g" / "erm-d=8" / "1" / "error.txt").read_text()
    assert error == "try 4: out of time: more than 5 s\n"


ONE = "gnn.dim_inner x [8]"


@pytest.mark.parametrize(
    "text, more, told",
    [
        ("gnn.no_such x [1]", [], "gnn.no_such"),
        ("train.mode m ['no_such']", [], "train.mode"),
        ("cfg c ['testing/no_such']", [], "--cfg"),
        ("dataset.name data ['Cora','cora']", [], "have the same name"),
        ("srnc.rounds T [3,4]", [], "have the same config"),
        ("dataset.name data ['{long}']", [], "at most 200"),
        (ONE, ["--grid", "no/such"], "--grid"),
        (ONE, ["--name", "../up"], "plain file name"),
        (ONE, ["--time-limit", "nan"], "--time-limit"),
    ],
)
def test_bad_input_is_one_line_before_the_first_run(tmp_path, capsys, runs_done, text, more, told):
    status = main(words(tmp_path, *more, text=text.replace("{long}", "x" * 300)))
    assert told in refusal(status, capsys)
    assert tree(tmp_path) == {"grid.txt"} and runs_done == []


# What else a run of a grid is.


@pytest.mark.parametrize("name", [path.stem for path in (config_root() / "grids").glob("*.txt")])
def test_a_shipped_grid_loads_as_a_whole(gym, tmp_path, name):
    spaces = space.read(config_root() / "grids" / f"{name}.txt")
    # GraphGym's agg_batch sorts by the columns of one of the folders.
    assert len({tuple(axis.alias for axis in part) for part in spaces}) == 1
    settings = space.settings(spaces)
    assert len(settings) > 5 and len(set(settings)) == len(settings)
    assert runs.cells(settings[::6], {}, "default", [], tmp_path, 10) and not tree(tmp_path)

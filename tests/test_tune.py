"""``graphgym-srnc tune``: equal terms for all methods, choices by validation alone, resumed.

Runs are done in this process, but for one study that is killed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

pytest.importorskip("optuna")

from conftest import refusal
from stored import run_in_this_process, store_runs

from graphgym_srnc import methods
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.options import options
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import load_config
from graphgym_srnc.io import records
from graphgym_srnc.report.frame import collect
from graphgym_srnc.sweep import runs, search, space, study, worker

SMALL = (
    "synthetic.num_nodes 120 synthetic.num_val 30 synthetic.num_test 30 synthetic.num_features 30 "
    "synthetic.num_classes 3 synthetic.labels_per_class 5 synthetic.num_unseen 1 gnn.dim_inner 8 "
    "optim.base_lr 0.01 optim.weight_decay 0.0 cmd.steps 2 dann.steps 2"
).split()
ARMS = ("cmd", "dann")


def words(folder: Path, *more: str, trials: int = 6, seeds: str = "100-101") -> list[str]:
    """A study in ``<folder>/s``."""
    text = f"tune --cfg testing/cmd --methods cmd,dann --trials {trials} --seeds {seeds} --jobs 1"
    return [*text.split(), "--out-dir", str(folder), "--name", "s", *more, *SMALL]


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "s" / "tuned.json").read_text())


def without_seconds(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_seconds(value) for key, value in tree.items() if key != "seconds"}
    return list(map(without_seconds, tree)) if isinstance(tree, list) else tree


def stored_runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("s/trials/*/*/result.json"))


def result(folder: Path, run: str, seed: int = 100) -> records.Result:
    found = records.read_result(folder / "s" / "trials" / run / str(seed))
    assert found is not None
    return found


@pytest.fixture
def runs_done(monkeypatch) -> list[str]:
    return run_in_this_process(monkeypatch)


@pytest.fixture(scope="module")
def finished_study(tmp_path_factory) -> Path:
    """A finished study of six trials a method."""
    with pytest.MonkeyPatch.context() as patch:
        run_in_this_process(patch)
        assert main(words(folder := tmp_path_factory.mktemp("shared"))) == 0
    return folder


@pytest.fixture
def copied_study(finished_study, tmp_path) -> Path:
    """A copy of it."""
    shutil.copytree(finished_study, tmp_path / "copy")
    return tmp_path / "copy"


# Spaces.


def test_every_method_searches_allowed_values():
    for name in methods.names():
        method = methods.find(name)
        own = {option.key: option for option in options(method)}
        declared = {**search.SHARED, **method.search, **method.search_open}
        assert not set(method.search) & set(method.search_open)
        for key, values in declared.items():
            assert key in own or key in search.SHARED
            assert len(values) != 1 and len(set(values)) == len(values)
            for value in values if key in own else ():
                assert type(value) is own[key].type
                assert own[key].allowed is None or own[key].allowed.allows(value), value
        cfg = load_config(None, ["train.mode", name])
        space_of = search.space(cfg, open_set=True)
        arm = search.Arm(name, None, ["train.mode", name], space_of)
        assert arm.config(setting=arm.defaults) == cfg
        assert arm.config(setting={key: values[-1] for key, values in space_of.items()})


def test_fixed_keys_are_not_searched():
    cfg = load_config(None, ["train.mode", "erm"])
    fixed = {"gnn.dim_inner", "erm.smoothing"}
    assert {*search.space(cfg, False)} - {*search.space(cfg, False, fixed)} == fixed


def test_an_option_that_does_not_exist_is_not_searched(monkeypatch):
    monkeypatch.setattr(methods.find("erm"), "search", {"setps": (10,)})
    with pytest.raises(InputError, match="its search names setps, which is no option"):
        search.space(load_config(None, ["train.mode", "erm"]), False)


def test_a_method_starts_from_its_own_config():
    words = ["gnn.act", "elu"]
    arms = search.arms("paper/open_set/cora-srnc-plus", ["srnc_plus", "pgl", "dann"], words)
    names = ["cora-srnc-plus", "cora-pgl", "cora-srnc-plus"]
    assert [arm.base for arm in arms] == [f"paper/open_set/{name}" for name in names]
    assert [arm.config().train.mode for arm in arms] == ["srnc_plus", "pgl", "dann"]
    assert {arm.config().gnn.act for arm in arms} == {"elu"}
    assert [arm.name for arm in search.arms(None, [], [])] == ["srnc"]


# Proposals, with a toy in place of runs.


def settings_of_trials(folder: Path, values: dict, trials: int) -> list:
    """Settings of the trials of a study whose score is the sum of its setting."""
    toy = study.Study(folder, [search.Arm("erm", None, [], values)], [[]], range(1), trials)

    def score(batch, *_):
        for one in batch:
            one.scores.append(sum(one.setting.values()))

    toy._score = score
    toy.run(None, None)
    return [trial.setting for trial in toy.results["erm"]]


def test_no_setting_twice_and_all_of_a_small_space(tmp_path):
    values = {"a": (1, 2, 3), "b": (0, 5)}
    found = settings_of_trials(tmp_path, values, 20)
    assert len({tuple(setting.items()) for setting in found}) == len(found) == 6
    assert found[0] == {"a": 1, "b": 0}
    assert (
        settings_of_trials(tmp_path, values, 20) == found
        and settings_of_trials(tmp_path, values, 4) == found[:4]
    )


def test_proposals_learn_and_optuna_reads_the_journal(tmp_path):
    import optuna
    from optuna.storages import journal

    values = {key: tuple(range(9)) for key in "abc"}
    found = [sum(setting.values()) for setting in settings_of_trials(tmp_path, values, 40)]
    assert median(found[20:]) > median(found[:10]) + 3
    storage = optuna.storages.JournalStorage(
        journal.JournalFileBackend(str(tmp_path / study.JOURNAL))
    )
    trials = optuna.load_study(study_name="erm", storage=storage).trials
    assert [trial.value for trial in trials if trial.value is not None] == found


# Bad input.


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (["--methods", "cmd,nope"], "--methods"),
        (["--methods", "cmd,erm"], "--methods"),
        (["--trials", "0"], "--trials"),
        (["--seeds", "9-12"], "--seeds"),
        (["--selection", "source_val", "synthetic.mode", "open_set"], "--selection"),
        (["--selection", "nope"], "train.selection"),
        (["--block", "gnn.act 'elu"], "--block"),
        (["--block", "train.mode erm"], "--block"),
        (["--name", "../x"], "--name"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, more, key):
    error = refusal(main([*words(tmp_path, "synthetic.num_val", "30"), *more]), capsys)
    assert error.startswith(f"error: {key}: "), error
    assert not list(tmp_path.iterdir())


def test_without_optuna_one_sentence_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "graphgym_srnc.cli.tune", raising=False)
    assert main(words(tmp_path)) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: tune: the package optuna is not installed") and "pip" in err
    assert not list(tmp_path.iterdir())


# Studies.


def test_equal_budgets_and_a_choice_on_validation(tmp_path, runs_done, capsys):
    assert main(words(tmp_path, "--no-pruning", trials=3)) == 0
    out = capsys.readouterr().out
    found = record(tmp_path)["methods"]
    assert len(runs_done) == len(stored_runs(tmp_path)) == len(ARMS) * 3 * 2
    best = {}
    for name in ARMS:
        trials = found[name]["trials"]
        assert [trial["state"] for trial in trials] == ["done"] * 3
        assert len({json.dumps(trial["setting"]) for trial in trials}) == 3
        value = max(trial["value"] for trial in trials)
        assert found[name]["validation"] == value >= found[name]["default"] == trials[0]["value"]
        best[name] = next(trial for trial in trials if trial["value"] == value)
        assert found[name]["chosen"] == best[name]["setting"]
        scores = [result(tmp_path, best[name]["runs"][0], seed)["val"] for seed in (100, 101)]
        assert value == pytest.approx(sum(score["micro_f1"] for score in scores) / 2)
        assert f"{name}: from testing/{name}" in out

    settings = space.settings(space.read(tmp_path / "s" / "tuned.txt"))
    for cell in runs.cells(settings, {}, "g", [], tmp_path / "g", 2):
        (run,) = best.pop(cell.cfg.train.mode)["runs"]
        assert cell.experiment.digest == result(tmp_path, run)["digest"]
    assert not best and not list(tmp_path.rglob("*.tmp"))
    assert main(["check", str(tmp_path)]) == 0
    assert "1 experiment, 12 runs: 0 damaged, 0 failed, 0 unfinished" in capsys.readouterr().out

    # Trials are in no comparison, unless their study is given.
    store_runs(tmp_path, "own", [0.5])
    every = collect([tmp_path])
    study = collect([tmp_path / "s"])
    assert {*every.runs["experiment"]} == {"own"} and len(study.runs) == len(ARMS) * 3 * 2
    assert every.notes == ["left out the trials of tune in s. To see them, give that folder"]


def test_trials_below_the_median_of_completed_ones_stop_after_the_first_seed(finished_study):
    states = []
    for found in record(finished_study)["methods"].values():
        done = [trial["first"] for trial in found["trials"][: study.TOGETHER]]
        for trial in found["trials"]:
            pruned = trial["number"] >= study.TOGETHER and trial["first"] < median(done)
            done_runs = finished_study.glob(f"s/trials/{trial['runs'][0]}/*/result.json")
            seeds = sorted(run.parent.name for run in done_runs)
            assert trial["state"] == ("pruned" if pruned else "done")
            assert seeds == ["100", "101"][: 2 - pruned] and (trial["value"] is None) == pruned
            states.append(trial["state"])
    assert set(states) == {"done", "pruned"}


def test_again_nothing_runs_and_more_trials_continue(copied_study, runs_done, capsys):
    first = record(copied_study)
    assert main(words(copied_study)) == 0
    assert not runs_done and record(copied_study) == first
    assert main(words(copied_study, trials=7)) == 0
    for name in ARMS:
        assert (
            record(copied_study)["methods"][name]["trials"][:6] == first["methods"][name]["trials"]
        )
    before = {path: path.stat().st_mtime_ns for path in copied_study.rglob("*")}
    for more in (["--block", "gnn.act elu"], ["--methods", "cmd"], ["--seeds", "100-102"]):
        assert main([*words(copied_study, trials=7), *more]) == 2
        assert "another --name, or add --overwrite" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in copied_study.rglob("*")}
    runs_done.clear()
    assert main([*words(copied_study, "--overwrite", trials=1), "--methods", "cmd"]) == 0
    assert len(runs_done) == 2 and list(record(copied_study)["methods"]) == ["cmd"]


def test_test_scores_have_no_say(copied_study, runs_done):
    chosen = record(copied_study)
    stored = stored_runs(copied_study)
    for number, file in enumerate(stored):
        result = json.loads(file.read_text())
        for part in (result, *result["history"]):
            part["test"] = {key: number / len(stored) for key in part["test"]}
        records.write_record(file.parent, result)
    assert main(words(copied_study)) == 0
    assert not runs_done and record(copied_study) == chosen


def test_blocks_are_averaged_and_the_grid_has_them(tmp_path, runs_done):
    blocks = ["--block", "synthetic.mode close_set", "--block", "synthetic.mode open_set"]
    more = ["--methods", "cmd", "--selection", "target_modularity"]
    assert main([*words(tmp_path, *blocks, trials=2, seeds="100"), *more]) == 0
    trial = record(tmp_path)["methods"]["cmd"]["trials"][0]
    scores = []
    for run in trial["runs"]:
        stored = result(tmp_path, run)
        assert stored["selection"] == "target_modularity"
        scores.append(stored["history"][stored["selected"]]["losses"]["class_modularity"])
    assert len(scores) == 2 and trial["value"] == pytest.approx(sum(scores) / 2)
    settings = space.settings(space.read(tmp_path / "s" / "tuned.txt"))
    modes = [dict(point[::2] for point in setting)["synthetic.mode"] for setting in settings]
    assert modes == ["close_set", "open_set"]
    assert len(runs.cells(settings, {}, "g", [], tmp_path / "g", 1)) == 2


# Failures, and going on.


def test_a_failing_trial_is_lost_and_told(tmp_path, runs_done, capsys, monkeypatch):
    from graphgym_srnc.methods.cmd import CMD

    losses = CMD.losses

    def fail(self):
        if self.weight != 1.0:
            raise FloatingPointError("it is no number")
        return losses(self)

    more = ["--methods", "cmd"]
    monkeypatch.setattr(CMD, "losses", fail)
    monkeypatch.setattr(search, "SHARED", {})
    monkeypatch.setattr(CMD, "search", {"weight": (0.1, 1.0), "batch_size": (0, -1)})
    assert main([*words(tmp_path, trials=4), *more]) == 0
    found = record(tmp_path)["methods"]
    for trial in found["cmd"]["trials"]:
        weight, batch = trial["setting"].values()
        assert (trial["state"] == "failed") == (weight != 1.0 or batch == -1)
        reason = "batch_size" if batch else "no number"
        assert trial["state"] != "failed" or reason in trial["why"]
    assert len(found["cmd"]["trials"]) == 4 and found["cmd"]["chosen"]["cmd.weight"] == 1.0
    out = capsys.readouterr().out
    assert " trials failed; the first is trial " in out
    assert "the unchanged config" in out and "from the default" not in out
    monkeypatch.setattr(CMD, "losses", losses)
    assert main([*words(tmp_path, trials=4), *more]) == 0, "what failed is tried again"

    monkeypatch.setattr(CMD, "losses", lambda self: {}["nothing"])
    assert main([*words(tmp_path, "--overwrite", trials=1), *more]) == 1
    assert "Every trial failed for cmd" in capsys.readouterr().err
    assert record(tmp_path)["methods"]["cmd"]["chosen"] is None
    assert not (tmp_path / "s" / "tuned.txt").exists()
    assert not (tmp_path / "s" / "tuned" / "cmd.yaml").exists()


@pytest.mark.slow
def test_it_goes_on_after_ctrl_c(tmp_path, finished_study, runs_done, monkeypatch, capsys):
    execute = worker.execute
    left = [8]

    def stop(job):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return execute(job)

    monkeypatch.setattr(worker, "execute", stop)
    assert main(words(tmp_path)) == 130
    assert "repeat the command to continue" in capsys.readouterr().err
    assert not (tmp_path / "s" / "tuned.json").exists()
    assert main(words(tmp_path)) == 0
    here = record(tmp_path)["methods"]
    there = record(finished_study)["methods"]
    assert without_seconds(here) == without_seconds(there)

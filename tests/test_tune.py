"""``graphgym-srnc tune``: equal terms for all methods, choices by validation alone, resumed.

Runs are done in this process, but for one study that is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from graphgym_srnc import methods
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.options import Option, options
from graphgym_srnc.gym import load_config
from graphgym_srnc.gym.config import KEYS
from graphgym_srnc.io import store
from graphgym_srnc.sweep import local, plan, sampler, space, worker
from graphgym_srnc.sweep.arm import Arm, Trial, make
from graphgym_srnc.sweep.jobs import Limits, Outcome, attempt
from graphgym_srnc.sweep.search import SHARED
from graphgym_srnc.sweep.search import space as space_of

SRC = Path(__file__).parent.parent
SMALL = [
    "synthetic.num_nodes",
    "120",
    "synthetic.num_val",
    "30",
    "synthetic.num_test",
    "30",
    "synthetic.num_features",
    "30",
    "synthetic.num_classes",
    "3",
    "synthetic.labels_per_class",
    "5",
    "synthetic.num_unseen",
    "1",
    "gnn.dim_inner",
    "8",
    "optim.base_lr",
    "0.01",
    "optim.weight_decay",
    "0.0",
]
ARMS = ("cmd", "dann")
STEPS = [word for name in ARMS for word in (f"{name}.steps", "5")]


def words(folder: Path, *more: str, trials: int = 4, seeds: str = "100-101") -> list[str]:
    """A study in ``<folder>/s``."""
    return [
        "tune",
        "--cfg",
        "testing/cmd",
        "--methods",
        ",".join(ARMS),
        "--trials",
        str(trials),
        "--seeds",
        seeds,
        "--sampler",
        "random",
        "--jobs",
        "1",
        "--out-dir",
        str(folder),
        "--name",
        "s",
        *more,
        *SMALL,
        *STEPS,
    ]


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "s" / "tuned.json").read_text())


def without_seconds(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_seconds(value) for key, value in tree.items() if key != "seconds"}
    return list(map(without_seconds, tree)) if isinstance(tree, list) else tree


def runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("s/trials/*/*/result.json"))


@pytest.fixture
def inline(monkeypatch) -> list[str]:
    """Runs are done in this process; gives those that were, as ``name/seed``."""
    done: list[str] = []

    @contextlib.contextmanager
    def warm(execute, limits, workers=1):
        def run(jobs):
            for job in jobs:
                done.append(f"{job.name}/{job.seed}")
                yield Outcome(job, *attempt(partial(execute, job)))

        yield run

    monkeypatch.setattr(local, "warm", warm)
    monkeypatch.setattr(worker, "_release_memory", lambda: None)
    return done


# Spaces.


@pytest.mark.parametrize("name", methods.names())
def test_what_a_method_declares_is_allowed(name):
    method = methods.find(name)
    own = {option.key: option for option in options(method)}
    for option, values in (*method.search.items(), *method.search_open.items()):
        assert option in own or option in SHARED, option
        check_values(own.get(option), values)
    assert not set(method.search) & set(method.search_open)
    check_values(own["smoothing"], SHARED["smoothing"])


def check_values(option: Option | None, values: tuple) -> None:
    assert len(values) != 1 and len(set(values)) == len(values)
    for value in values if option else ():
        assert type(value) is option.type, value
        assert option.allowed is None or option.allowed.allows(value), value


def test_every_method_has_the_same_shared_dimensions():
    found = {}
    for name in methods.names():
        cfg = load_config(None, ["train.mode", name])
        keys = space_of(cfg, open_set=True)
        shared = [
            key for key in keys if key in KEYS.values() or key.replace(f"{name}.", "") in SHARED
        ]
        taken = [option for option, values in methods.find(name).search.items() if not values]
        found[name] = [*(key.replace(f"{name}.", "") for key in shared), *taken]
        for key, values in keys.items():
            assert load_config(None, ["train.mode", name, key, values[-1]])
        point = tuple(values[0] for values in keys.values())
        as_it_is = load_config(None, ["train.mode", name, *flat(keys, point)])
        assert as_it_is == cfg, name
    assert len(set(map(frozenset, found.values()))) == 1
    assert len(found["erm"]) == len(SHARED)


def flat(keys, point) -> list:
    return [word for pair in zip(keys, point) for word in pair]


@pytest.mark.parametrize(
    "layer, count, gone",
    [
        ("gcnconv", 2, set()),
        ("mlp", 2, set()),
        ("sgconv", 2, {"gnn.dim_inner", "gnn.dropout"}),
        ("gcnconv", 1, {"gnn.dim_inner", "gnn.dropout"}),
        ("dgi", 1, {"gnn.dropout"}),
    ],
)
def test_what_an_encoder_does_not_read_is_not_searched(layer, count, gone):
    base = ["train.mode", "erm"]
    keys = set(space_of(load_config(None, base), open_set=False))
    cfg = load_config(None, [*base, "gnn.layer_type", layer, "gnn.layers_mp", count])
    assert keys - set(space_of(cfg, open_set=False)) == gone
    fixed = {"gnn.dim_inner", "erm.smoothing"}
    assert keys - set(space_of(cfg, False, fixed)) == gone | fixed


def test_open_set_options_are_searched_there_alone(monkeypatch):
    cfg = load_config(None, ["train.mode", "srnc"])
    assert set(space_of(cfg, True)) - set(space_of(cfg, False)) == {"srnc.num_clusters"}
    monkeypatch.setattr(methods.find("srnc"), "search", {"smoothing": (), "dropout": (0.1, 0.9)})
    found = space_of(cfg, False)
    assert "srnc.smoothing" not in found and found["gnn.dropout"] == (0.5, 0.1, 0.9)


# Samplers.


def samplers() -> list:
    tpe = pytest.param(
        sampler.propose,
        id="tpe",
        marks=pytest.mark.skipif(
            "not __import__('importlib.util').util.find_spec('optuna')", reason="needs optuna"
        ),
    )
    return [pytest.param(sampler.draw, id="random"), tpe]


@pytest.mark.parametrize("propose", samplers())
def test_no_point_twice_and_all_of_a_small_space(propose):
    arms = [Arm("erm", None, [], {"a": (1, 2, 3), "b": ("x", "y")}) for _ in range(2)]
    for arm in arms:
        for _ in range(5):
            for trial in arm.propose(2, propose, seed=7):
                trial.first = trial.value = float(trial.point[0])
                if trial.number == 3:
                    trial.first = trial.value = None
                if trial.number == 4:
                    trial.value = None
        assert len({trial.point for trial in arm.trials}) == len(arm.trials) == 6
        assert arm.trials[0].point == (1, "x")
    assert arms[0].trials == arms[1].trials


def test_tpe_learns():
    pytest.importorskip("optuna")
    keys = {name: tuple(range(6)) for name in "abc"}

    def late(propose, seed: int) -> float:
        arm = Arm("erm", None, [], keys)
        for _ in range(10):
            for trial in arm.propose(4, propose, seed):
                trial.first = trial.value = sum(trial.point) / 15
        return sum(trial.value for trial in arm.trials[20:]) / 20

    gain = [late(sampler.propose, seed) - late(sampler.draw, seed) for seed in range(3)]
    assert sum(gain) / 3 > 0.1, gain


def test_without_optuna(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sampler, "find_spec", lambda name: None)
    assert sampler.find("auto") == ("random", sampler.draw) == sampler.find("random")
    assert main([*words(tmp_path), "--sampler", "tpe"]) == 2
    assert "--sampler" in capsys.readouterr().err and not list(tmp_path.iterdir())


# Bad input.


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (["--methods", "cmd,nope"], "--methods"),
        (["--methods", "standard"], "--methods"),
        (["--trials", "0"], "--trials"),
        (["--jobs", "-1"], "--jobs"),
        (["--seeds", "0-2"], "--seeds"),
        (["--seeds", "9-12"], "--seeds"),
        (["--seeds", "103-100"], "--seeds"),
        (["--seeds", "a"], "--seeds"),
        (["--seeds", "4294967290-4294967299"], "--seeds"),
        (["--selection", "last"], "--selection"),
        (["--selection", "source_val", "synthetic.mode", "open_set"], "--selection"),
        (["--selection", "nope"], "train.selection"),
        (["--block", "gnn.act"], "--block"),
        (["--block", "gnn.act 'elu"], "--block"),
        (["--block", "train.mode erm"], "--block"),
        (["--block", "gnn.nope 3"], "gnn.nope"),
        (["--name", "../x"], "name"),
        (["--cfg", "testing/standard", "--methods", ""], "train.mode"),
        (["--cfg", "nope"], "--cfg"),
        (["--methods", "cmd,erm"], "--methods"),
        (["cmd.weight", "-1"], "cmd.weight"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, more, key):
    assert main([*words(tmp_path, "synthetic.num_val", "30"), *more]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"error: {key}: "), captured.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["s", "s/tuned", "s/trials"])
def test_no_link_leads_out_of_the_folder(tmp_path, capsys, place):
    outside, link = tmp_path / "outside", tmp_path / "o" / place
    outside.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    assert main(words(tmp_path / "o")) == 2
    assert "Use a real folder, no link" in capsys.readouterr().err and not list(outside.iterdir())


def test_a_place_that_is_no_folder_is_bad_input_and_no_failing_trial(tmp_path, inline, capsys):
    (tmp_path / "s").write_text("mine")
    assert main(words(tmp_path)) == 2
    assert capsys.readouterr().err.startswith("error: out_dir: ")
    assert (tmp_path / "s").read_text() == "mine" and not inline


def test_a_method_starts_from_its_own_config():
    arms = make("paper/open_set/cora-srnc-plus", ["srnc_plus", "pgl", "dann"], ["gnn.act", "elu"])
    assert [arm.base for arm in arms] == [
        "paper/open_set/cora-srnc-plus",
        "paper/open_set/cora-pgl",
        "paper/open_set/cora-srnc-plus",
    ]
    assert [arm.config().train.mode for arm in arms] == ["srnc_plus", "pgl", "dann"]
    assert {arm.config().gnn.act for arm in arms} == {"elu"}
    assert [arm.name for arm in make(None, [], [])] == ["srnc"]


# Studies.


def test_equal_budgets_and_a_choice_on_validation(tmp_path, inline, capsys):
    assert main(words(tmp_path, "--no-pruning")) == 0
    out = capsys.readouterr().out
    found = record(tmp_path)["methods"]
    assert len(inline) == len(runs(tmp_path)) == len(ARMS) * 4 * 2
    for name in ARMS:
        trials = found[name]["trials"]
        assert [trial["state"] for trial in trials] == ["done"] * 4
        assert len({json.dumps(trial["setting"]) for trial in trials}) == 4
        best = max(trial["value"] for trial in trials)
        assert found[name]["validation"] == best >= found[name]["default"] == trials[0]["value"]
        first = next(trial for trial in trials if trial["value"] == best)
        assert found[name]["chosen"] == first["setting"]
        scores = [
            store.read_result(tmp_path / "s" / "trials" / first["runs"][0] / seed)["val"]
            for seed in ("100", "101")
        ]
        assert best == pytest.approx(sum(score["micro_f1"] for score in scores) / 2)
        assert f"{name}: from testing/{name}" in out

    settings = space.settings(space.read(tmp_path / "s" / "tuned.txt"))
    cells = plan.cells(settings, None, "g", [], tmp_path / "g", 2)
    assert [cell.cfg.train.mode for cell in cells] == list(ARMS)
    chosen = {cell.cfg.train.mode: cell.experiment.digest for cell in cells}
    for name in ARMS:
        best = max(found[name]["trials"], key=lambda trial: trial["value"])
        stored = store.read_result(tmp_path / "s" / "trials" / best["runs"][0] / "100")
        assert chosen[name] == stored["digest"]
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_worse_half_is_pruned_after_the_first_seed(tmp_path, inline):
    assert main(words(tmp_path)) == 0
    for name, found in record(tmp_path)["methods"].items():
        trials = found["trials"]
        middle = median(trial["first"] for trial in trials)
        for trial in trials:
            seeds = [
                seed for run, seed in (one.split("/") for one in inline) if run == trial["runs"][0]
            ]
            if trial["number"] == 0 or trial["first"] >= middle:
                assert (trial["state"], seeds) == ("done", ["100", "101"]), name
            else:
                assert (trial["state"], seeds, trial["value"]) == ("pruned", ["100"], None), name


def test_again_nothing_runs_and_more_trials_continue(tmp_path, inline, capsys):
    assert main(words(tmp_path)) == 0
    first = record(tmp_path)
    inline.clear()
    assert main(words(tmp_path)) == 0
    assert not inline and record(tmp_path) == first
    assert main(words(tmp_path, trials=5)) == 0
    for name in ARMS:
        assert record(tmp_path)["methods"][name]["trials"][:4] == first["methods"][name]["trials"]
    capsys.readouterr()

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for more in (["--block", "gnn.act elu"], ["--methods", "cmd"], ["--seeds", "100-102"]):
        assert main([*words(tmp_path, trials=5), *more]) == 2
        assert "another --name, or add --overwrite" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    inline.clear()
    assert main([*words(tmp_path, "--overwrite", trials=1), "--methods", "cmd"]) == 0
    assert len(inline) == 2 and list(record(tmp_path)["methods"]) == ["cmd"]


def test_test_scores_have_no_say(tmp_path, inline):
    assert main(words(tmp_path)) == 0
    chosen, stored = record(tmp_path), runs(tmp_path)
    for number, file in enumerate(stored):
        result = json.loads(file.read_text())
        for part in (result, *result["history"]):
            part["test"] = {key: number / len(stored) for key in part["test"]}
        store.write_record(file.parent, result)
    inline.clear()
    assert main(words(tmp_path)) == 0
    assert not inline and record(tmp_path) == chosen


def test_blocks_are_averaged_and_the_grid_has_them(tmp_path, inline):
    blocks = ["--block", "synthetic.mode close_set", "--block", "synthetic.mode open_set"]
    assert main([*words(tmp_path, *blocks, trials=2, seeds="100-100"), "--methods", "cmd"]) == 0
    trial = record(tmp_path)["methods"]["cmd"]["trials"][0]
    scores = [
        store.read_result(tmp_path / "s" / "trials" / name / "100")["score"]
        for name in trial["runs"]
    ]
    assert len(scores) == 2 and trial["value"] == pytest.approx(sum(scores) / 2)
    settings = space.settings(space.read(tmp_path / "s" / "tuned.txt"))
    assert [dict(point[::2] for point in setting)["synthetic.mode"] for setting in settings] == [
        "close_set",
        "open_set",
    ]
    assert len(plan.cells(settings, None, "g", [], tmp_path / "g", 1)) == 2


@pytest.mark.parametrize("rule", ["target_val", "target_modularity"])
def test_one_selector_for_all(tmp_path, inline, rule):
    assert main(words(tmp_path, "--selection", rule, trials=1, seeds="100-100")) == 0
    for name, found in record(tmp_path)["methods"].items():
        result = store.read_result(runs(tmp_path)[0].parent)
        assert result["selection"] == rule
        names = {trial["runs"][0] for trial in found["trials"]}
        scores = [store.read_result(tmp_path / "s" / "trials" / run / "100") for run in names]
        assert [score["score"] for score in scores] == [found["validation"]], name
        episode = scores[0]["history"][scores[0]["selected"]]
        of = {
            "target_val": episode["val"].get("micro_f1"),
            "target_modularity": episode["losses"].get("class_modularity"),
        }
        assert found["validation"] == of[rule]


# Failures, and going on.


def test_a_failing_trial_is_lost_and_told(tmp_path, inline, capsys, monkeypatch):
    from graphgym_srnc.methods.cmd import CMD

    losses = CMD.losses

    def fail(self):
        if self.weight != 1.0:
            raise FloatingPointError("it is no number")
        return losses(self)

    monkeypatch.setattr(CMD, "losses", fail)
    assert main(words(tmp_path)) == 0
    found = record(tmp_path)["methods"]
    failed = [trial for trial in found["cmd"]["trials"] if trial["setting"]["cmd.weight"] != 1.0]
    assert failed and all(
        trial["state"] == "failed" and "no number" in trial["why"] for trial in failed
    )
    assert found["cmd"]["chosen"]["cmd.weight"] == 1.0 and len(found["cmd"]["trials"]) == 4
    assert all(trial["state"] != "failed" for trial in found["dann"]["trials"])
    captured = capsys.readouterr()
    assert f"cmd: {len(failed)} trials failed" in captured.out

    monkeypatch.setattr(CMD, "losses", lambda self: {}["nothing"])
    assert main(words(tmp_path, "--overwrite")) == 1
    assert "Every trial failed for cmd" in capsys.readouterr().err
    assert record(tmp_path)["methods"]["cmd"]["chosen"] is None
    assert "cmd" not in (tmp_path / "s" / "tuned.txt").read_text()


def test_values_that_do_not_go_together_cost_a_trial(tmp_path, inline, monkeypatch, capsys):
    from graphgym_srnc.methods.cmd import CMD

    monkeypatch.setattr(CMD, "search", {"batch_size": (0, -1), "order": (3, 5)})
    fixed = "cmd.smoothing", "0", "cmd.correction", "none", "cmd.correction_power", "1.0"
    assert (
        main(
            [
                *words(tmp_path, *fixed, trials=9),
                "--methods",
                "cmd",
                "gnn.dropout",
                "0.5",
                "dataset.normalize",
                "none",
            ]
        )
        == 0
    )
    trials = record(tmp_path)["methods"]["cmd"]["trials"]
    assert len(trials) == 4, "the whole space"
    assert [trial["state"] == "failed" for trial in trials] == [
        trial["setting"]["cmd.batch_size"] == -1 for trial in trials
    ]
    assert "cmd: 2 trials failed" in capsys.readouterr().out


def test_it_goes_on_after_ctrl_c(tmp_path, inline, monkeypatch, capsys):
    assert main(words(tmp_path / "whole")) == 0
    warm, left = local.warm, [5]

    @contextlib.contextmanager
    def stopping(*given):
        with warm(*given) as run:

            def one_by_one(jobs):
                for outcome in run(jobs):
                    left[0] -= 1
                    if left[0] < 0:
                        raise KeyboardInterrupt
                    yield outcome

            yield one_by_one

    monkeypatch.setattr(local, "warm", stopping)
    assert main(words(tmp_path)) == 130
    assert "repeat the command to continue" in capsys.readouterr().err
    assert not (tmp_path / "s" / "tuned.json").exists()
    monkeypatch.setattr(local, "warm", warm)
    assert main(words(tmp_path)) == 0
    assert without_seconds(record(tmp_path)) == without_seconds(record(tmp_path / "whole"))


def test_it_goes_on_after_a_kill(tmp_path, inline):
    """The command as a user types it, in processes of its own, equals a study in this process."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "graphgym_srnc", *words(tmp_path, trials=3)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 300
    while len(runs(tmp_path)) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    kept = runs(tmp_path)
    assert kept
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "cmd: from testing/cmd" in done.stdout and "next, on other seeds" in done.stdout
    assert main(words(tmp_path / "here", trials=3)) == 0
    there, here = without_seconds(record(tmp_path)), without_seconds(record(tmp_path / "here"))
    assert there["methods"] == here["methods"]


def test_workers_of_several_calls_are_the_same():
    from test_grid import job, toy

    with local.warm(toy, Limits(), 2) as executor:
        pids = [
            {outcome.message for outcome in executor([job("short", seed) for seed in range(6)])}
            for _ in range(2)
        ]
        assert pids[0] == pids[1] and len(pids[0]) == 2
        (killed,) = executor([job("killed")])
        assert killed.state == "failed"
        assert [outcome.state for outcome in executor([job("short")])] == ["done"]


def test_of_equal_trials_the_first_is_best():
    arm = Arm("erm", None, [], {}, [Trial(0, ()), Trial(1, (), value=0.5), Trial(2, (), value=0.5)])
    assert arm.best().number == 1
    assert Arm("erm", None, []).best() is None

"""The command line as a user types it: results kept, errors in one line, nothing written by a
command that cannot run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import written
from conftest import ERM_WORDS, NO_PICTURES, begun, make_graph, program_words, refusal, stamps

from graphgym_srnc import methods
from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.main import build_parser, main
from graphgym_srnc.cli.parser import COMMANDS, DATA_COMMANDS
from graphgym_srnc.core import progress
from graphgym_srnc.core.options import options
from graphgym_srnc.io import records, store

pytestmark = pytest.mark.usefixtures("unchanged_globals")

NAMED = ["run", "--name", "default"]


def erm(out: Path, *words: str) -> int:
    return main([*NAMED, "--out-dir", str(out), *NO_PICTURES, *words, *ERM_WORDS])


def scores(out: Path, name: str = "default") -> dict[int, dict]:
    return {seed: result["test"] for seed, result in records.read_results(out / name).items()}


WRONG = {
    **dict.fromkeys([*COMMANDS, *(f"data {name}" for name in DATA_COMMANDS)], "nowhere"),
    "grid": "--grid no/such",
    "predict": "nowhere --out predictions.csv",
    "data list": "--root nowhere",
    "data make": "nowhere --out graph",
    "data example": "no/such/place",
}
"""Every command, and words after it that are wrong."""

RECORD = (
    "method backbone task split fingerprint selection selected stopped warnings val test history "
    "seconds peak_memory_mib versions commit params lr threads config digest"
)


def test_help_and_version(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["--help"], ["--version"], *([*name.split(), "--help"] for name in WRONG)):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "graphgym-srnc 0." in out and max(map(len, out.splitlines())) <= 80
    assert "overrides" in vars(build_parser().parse_args(["run"]))


@pytest.mark.parametrize(
    ("words", "listed"), [([], "graphgym-srnc"), (["--debug"], "tune"), (["data"], "example")]
)
def test_without_a_command_the_help_is_printed(words, listed, capsys):
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert listed in out and "commands:" in out and not err


@pytest.mark.parametrize("name", [*WRONG])
def test_bad_input_of_each_command_is_one_sentence(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*name.split(), *WRONG[name].split()]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ") and err.count("\n") == 1, err
    assert not out and not list(tmp_path.iterdir())


def test_a_run_leaves_the_whole_record(tmp_path, capsys):
    words = [*NAMED, "--repeat", "2", "--out-dir", str(tmp_path), *ERM_WORDS]
    assert main(words) == 0
    out = capsys.readouterr().out
    home = tmp_path / "default"
    assert "seed 0: kept episode" in out and "seed 1: kept episode" in out and "Micro-F1" in out
    assert "\x1b" not in out
    for name in "config.yaml summary.csv summary.md agg/test/best.json 0/val/stats.json".split():
        assert (home / name).is_file(), name
    assert (home / "0/figures/confusion-selected.png").is_file()
    assert list((home / "0").glob("events.out.tfevents.*"))
    assert not (home / "1" / "figures").exists()
    result = records.read_result(home / "1")
    assert {*RECORD.split()} <= set(result)
    assert result["method"] == "erm" and len(result["history"]) == 2
    assert result["config"]["gnn"]["dim_inner"] == 8
    assert f"test Micro-F1 {100 * result['test']['micro_f1']:.1f}" in out
    assert "srnc" not in result["config"] and "file" not in result["config"]
    line = json.loads((home / "1" / "train" / "stats.json").read_text().splitlines()[0])
    assert line["epoch"] == 0 and line["loss"] == result["history"][0]["losses"]["source"]
    assert 0 < line["accuracy"] <= 1


def test_results_are_kept_resumed_and_overwritten(tmp_path, capsys, monkeypatch):
    assert erm(tmp_path, "--repeat", "2") == 0
    before = stamps(tmp_path)
    first = scores(tmp_path)
    capsys.readouterr()
    error = refusal(erm(tmp_path, "--repeat", "3"), capsys)
    assert "--resume" in error and "default" in error
    assert stamps(tmp_path) == before

    # A torn record and a new seed are run; the finished one stays as it is.
    torn = tmp_path / "default" / "1" / "result.json"
    torn.write_text(torn.read_text()[:50])
    assert erm(tmp_path, "--repeat", "3", "--resume") == 0
    after = stamps(tmp_path)
    assert after["default/0/result.json"] == before["default/0/result.json"]
    assert scores(tmp_path)[1] == first[1] and len(scores(tmp_path)) == 3
    assert erm(tmp_path, "--repeat", "3", "--resume", "train.patience", "1") == 2
    assert "train.patience: 0 before, 1 now" in capsys.readouterr().err

    assert erm(tmp_path, "--repeat", "1", "--overwrite", "train.patience", "1") == 2
    assert "raise --repeat" in capsys.readouterr().err
    assert erm(tmp_path, "--repeat", "1", "--overwrite") == 0
    assert stamps(tmp_path)["default/0/result.json"] != before["default/0/result.json"]
    assert scores(tmp_path)[0] == first[0] and len(scores(tmp_path)) == 3

    monkeypatch.setattr(methods.find("erm"), "losses", lambda self: 1 / 0)
    assert "Micro-F1" in capsys.readouterr().out
    assert erm(tmp_path, "--repeat", "1", "--overwrite") == 1
    assert "Micro-F1" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("gnn.no_such 1", "gnn.no_such"),
        ("train.mode srncc", "train.mode"),
        ("gnn.dim_inner", "overrides"),
        ("--repeat 0", "--repeat"),
        ("--name ../up", "name"),
        ("seed 4294967295 --repeat 2", "seed"),
        ("synthetic.num_unseen 6", "num_unseen"),
        ("dataset.format file dataset.name nowhere", "dataset.name: 'nowhere' does not exist"),
        ("dataset.name mygraph", "For your own graph, add --cfg own"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(tmp_path, capsys, words, key):
    out = str(tmp_path / "deep" / "results")
    assert main([*NAMED, "--out-dir", out, *ERM_WORDS, *words.split()]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and err.startswith("error: ") and key in err
    assert not list(tmp_path.iterdir()) and (not out or key == "num_unseen")


def test_two_commands_at_one_name(tmp_path, capsys, monkeypatch):
    plan = store.Experiment.plan
    others = []

    def overtaken(self, *args):
        missing = plan(self, *args)
        if not others:  # another command does the same, and is done before this one begins
            others.append(None)
            others.append(erm(tmp_path))
        return missing

    monkeypatch.setattr(store.Experiment, "plan", overtaken)
    assert erm(tmp_path, "--repeat", "2") == 0
    assert others == [None, 0]
    out = capsys.readouterr().out
    assert "seed 0 is already finished" in out and "seed 1: kept" in out
    assert list(scores(tmp_path)) == [0, 1]


def test_runs_of_other_data_are_not_pooled(tmp_path, capsys):
    edges = written.graph_folder(tmp_path / "mine", make_graph()) / "edges.csv"
    out = tmp_path / "out"
    keys = "--name one dataset.format file file.num_val 20 file.num_test 20 file.num_unseen 1"
    words = [*keys.split(), "dataset.name", str(edges.parent)]
    assert erm(out, *words) == 0
    lines = edges.read_text().splitlines(keepends=True)
    before = stamps(out)
    edges.write_text("".join(lines[: len(lines) // 2]))
    capsys.readouterr()
    error = refusal(erm(out, *words, "--resume", "--repeat", "3"), capsys)
    assert "used other data (split of seed 0" in error
    assert stamps(out) == before
    edges.write_text("".join(lines))
    assert erm(out, *words, "--resume", "--repeat", "2") == 0 and len(scores(out, "one")) == 2


def test_a_large_graph_has_batches_unless_somebody_says_how_many(tmp_path, gym, monkeypatch):
    from graphgym_srnc.gym import prepare

    written.graph_folder(tmp_path, make_graph())
    monkeypatch.setattr(prepare, "LARGE", 90)
    for given, batch, fanout, told in (
        ("", 512, 5, "sets erm.batch_size to 512 and erm.fanout to 5. "),
        ("erm.fanout 3", 512, 3, "sets erm.batch_size to 512. "),
        ("erm.batch_size 0", 0, 10, ""),
        ("erm.batch_size 8", 8, 10, ""),
        ("gnn.layer_type sgconv", 0, 10, ""),
    ):
        words = f"dataset.format file file.path {tmp_path} train.mode erm {given}".split()
        cfg = gym.load_config(None, words)
        found = prepare.choose_batches(cfg, words[::2])
        assert told in found and bool(told) == bool(found)
        assert (cfg.erm.batch_size, cfg.erm.fanout) == (batch, fanout)


def test_an_unwritable_place_is_told_before_any_work(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(
        "graphgym_srnc.gym.build_task", lambda cfg: pytest.fail("worked before it looked")
    )
    assert erm(tmp_path / "file") == 2
    error = capsys.readouterr().err
    assert "cannot be written" in error and (tmp_path / "file").read_text() == "mine"


def test_unknown_options_and_stray_words_are_refused(capsys):
    for words, told in (
        ("run --no-such", "unrecognized arguments: --no-such"),
        ("discover r --name 1=a 2=b", "unrecognized arguments: 2=b. Repeat --name before each"),
        ("run --repat 3", "Did you mean --repeat?"),
        ("runn", "Did you mean run?"),
        ("data mak", "Did you mean make?"),
        ("options train stray", "unrecognized arguments: stray"),
        ("data make n.csv e.csv --text a b --out g", "arguments: b. Separate several columns by"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(words.split())
        assert stop.value.code == 2 and told in capsys.readouterr().err
    assert main(["run", "--resume", "--overwrite"]) == 2
    assert capsys.readouterr().err.startswith("error: --resume")


def test_other_errors_take_one_line_and_finished_runs_stay(tmp_path, monkeypatch, capsys):
    from graphgym_srnc.cli import options
    from graphgym_srnc.methods.erm import ERM as Method

    start = Method.start

    def fail(self, task):
        return {"source": float("nan")} if torch.initial_seed() == 1 else start(self, task)

    monkeypatch.setattr(Method, "start", fail)
    assert erm(tmp_path, "--repeat", "3") == 1
    told = "error: ERM, episode 0: source is nan. A lower learning rate may help (optim.base_lr)"
    assert capsys.readouterr().err.startswith(told)
    assert list(scores(tmp_path)) == [0] and (tmp_path / "default" / "summary.csv").is_file()
    with pytest.raises(FloatingPointError, match="ERM, episode 0: source"):
        erm(tmp_path, "--resume", "--repeat", "3", "--debug")
    monkeypatch.setattr(options, "main", lambda args: {}["no\x1b[31m\nsuch"])
    assert main(["options"]) == 1
    error = "internal error: KeyError: 'no\\x1b[31m\\nsuch'. Add --debug to see the traceback.\n"
    assert capsys.readouterr().err == error


def test_a_key_that_the_method_does_not_read_is_told(tmp_path, capsys):
    assert erm(tmp_path, "srnc.rounds", "3") == 0
    assert capsys.readouterr().err == (
        "note: train.mode erm does not read srnc.rounds; the value has no effect\n"
    )


def test_warnings_reach_screen_and_record(tmp_path, capsys, monkeypatch):
    from graphgym_srnc.methods.erm import ERM as Method

    episode = Method.episode

    def warn(self):
        self.warnings = {"collapse": "the cluster GNN collapsed: 1 of 7 clusters used"}
        return episode(self)

    monkeypatch.setattr(Method, "episode", warn)
    assert erm(tmp_path) == 0
    out = capsys.readouterr().out
    assert "\nwarning: the cluster GNN collapsed" in out
    assert re.search(r"seed 0: .* s; hidden: \d.*; \d warning", out)
    assert records.read_result(tmp_path / "default" / "0")["warnings"] == {
        "collapse": "the cluster GNN collapsed: 1 of 7 clusters used"
    }


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_keeps_finished_runs(tmp_path, number, status):
    # A shell's background job would hand its ignored signal down.
    process = begun(
        program_words(
            *NAMED, "--repeat", "500", "--out-dir", str(tmp_path), *NO_PICTURES, *ERM_WORDS
        ),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while process.poll() is None and not (tmp_path / "default" / "1" / "result.json").is_file():
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    kept = scores(tmp_path)
    assert process.returncode == status and "Traceback" not in err, err
    assert err.strip().splitlines()[-1].startswith("interrupted"), err
    assert 2 <= len(kept) < 500 and "Micro-F1" in out
    assert (tmp_path / "default" / "summary.csv").is_file()
    assert erm(tmp_path, "--repeat", str(len(kept) + 1), "--resume") == 0
    assert {seed: scores(tmp_path)[seed] for seed in kept} == kept
    assert len(scores(tmp_path)) == len(kept) + 1


SWALLOWED = """
import os, signal, time
from graphgym_srnc.cli import main

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)

received = []
main._take_signals(received)
try:
    Dropped()
    time.sleep(30)
except KeyboardInterrupt:
    print("stopped by", received)
"""


def test_ctrl_c_is_not_lost_in_a_destructor():
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED],
        capture_output=True,
        text=True,
        timeout=20,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.stdout, done.stderr) == ("stopped by [2]\n", "")


def test_options_lists_keys_and_choices(capsys):
    assert main(["options"]) == 0
    out = capsys.readouterr().out
    assert "methods (train.mode): a2gnn, adalign, cmd" in out
    assert "synthetic.num_nodes" in out and "gcnconv" in out
    assert ":math:" not in out and "``" not in out and "\\" not in out and "λ" in out
    assert main(["options", "erm"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["key", "type", "default", "allowed", "meaning"]
    own = options(methods.find("erm"))
    assert [line.split()[0] for line in lines] == [f"erm.{option.key}" for option in own]
    for option in own:
        assert not option.allowed or any(f"  {option.allowed}  " in line for line in lines)
    for key, value in (("synthetic.homophily", "0.9"), ("gnn.dim_inner", "256")):
        assert main(["options", key.partition(".")[0]]) == 0
        assert f" {value} " in re.search(f"^{key} .*", capsys.readouterr().out, re.M)[0]
    assert main(["options", "no_such"]) == 2


def test_default_names_say_config_data_and_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    ends = "cross_graph.target b cross_graph.source a"
    place = "dataset.name /data/of/Cora dataset.dir elsewhere"
    for cfg, words, shift, name in (
        (None, "", "synthetic", "default"),
        ("own", "", "file", "own"),
        ("paper/close_set/citation/erm", ends, "cross_graph", "citation-erm-source=a-target=b"),
        ("mine.yaml", place, "file", "mine-Cora"),
    ):
        assert arguments.default_name(cfg, words.split(), shift) == name


def test_progress_never_goes_back(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0)
    with progress.RunProgress(2) as display:
        for _ in range(2):
            display.doing("reading data")
            display.doing("pre-training", 0.3)
            for number in range(3):
                for steps in progress.steps(2), progress.steps(4):
                    list(steps)
                display.episode(number, 2, "validation 90.0 %")
            display.doing("drawing figures", 1.0)
            display.finish("done")
    told = capsys.readouterr().out
    assert "run 1/2, reading data (0 %, 0 s)\n" in told
    assert re.search(r"run 1/2, pre-training \(15 %, 0 s\)", told)
    assert "run 2/2, episode 2 of 2 (validation 90.0 %)" in told
    assert re.search(r"run 2/2, drawing figures \(9\d %", told)
    shares = [*map(int, re.findall(r"\((\d+) %", told))]
    assert shares == sorted(shares) and shares[0] == 0 and 50 in shares and shares[-1] > 80


def test_the_estimated_time_left_comes_from_ended_runs_and_does_not_rise(monkeypatch):
    """Parts of a run take times unlike their shares: the first tenth of it half of the time."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    one = progress.RunProgress(1)
    one.doing("pre-training", 0.5)
    one.doing("training", 0.9)
    now[0] = 30.0
    assert one.clock == "50 %, 30 s", "a single run has no estimate"

    several = progress.RunProgress(3)
    now[0] += 20.0
    several.finish("done")
    clocks = []
    for _ in range(5):
        clocks.append(several.clock)
        several.doing("training", 0.1)
        now[0] += 4.0
    assert clocks[0] == "33 %, 20 s, 40 s left"
    left = [int(re.search(r"(\d+) s left", clock)[1]) for clock in clocks]
    assert left == [40, 36, 32, 28, 24]
    several.finish("done")
    assert several.clock == "67 %, 40 s, 20 s left"
    now[0] += 25.0
    assert "left" not in several.clock, "a run that takes longer than the others"


def test_a_file_that_is_not_there_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert arguments.unused("page.html") == "page.html"
    assert arguments.unused("page.html", "page.html") == "page-2.html"
    Path("page.html").touch()
    Path("page-2.html").touch()
    assert arguments.unused("page.html") == "page-3.html"
    assert arguments.unused("page-3.html", "page-3.html") == "page-4.html"

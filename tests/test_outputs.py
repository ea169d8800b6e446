"""What commands write and where: not through links, not onto results or inputs, ids as they are,
and no traceback whatever the terminal is."""

from __future__ import annotations

import contextlib
import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import (
    ERM_WORDS,
    NO_PICTURES,
    SMALL_TASK,
    contents,
    ended,
    make_task,
    program_words,
    refusal,
    rows,
)
from stored import finish_run, new_experiment

from graphgym_srnc import ERM
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.text import apart, guarded
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic

pytestmark = pytest.mark.usefixtures("unchanged_globals")
FAST = [*NO_PICTURES, *ERM_WORDS]
IDS = [
    ["-1", "+49170", "-3.5e2", "@user", "@angular/core", "plain", "=1+2", "-1+cmd|x"][v % 8]
    + f"{v}"
    for v in range(80)
]


@pytest.fixture(scope="module")
def run_with_odd_ids(tmp_path_factory):
    """A folder with an experiment of one open-set run on a graph folder with difficult ids."""
    run_with_odd_ids = tmp_path_factory.mktemp("home")
    nodes = range(len(IDS))
    (run_with_odd_ids / "g").mkdir()
    for name, lines in {
        "nodes": [["id", "text"], *([id, f"text {id}"] for id in IDS)],
        "edges": [["from", "to"], *([v, (v + s) % len(IDS)] for v in nodes for s in (4, 8))],
        "labels": [["node", "label"], *([v, "abc"[v % 4]] for v in nodes if v % 4 < 3)],
    }.items():
        with open(
            run_with_odd_ids / "g" / f"{name}.csv", "w", newline="", encoding="utf-8"
        ) as file:
            csv.writer(file).writerows(lines)
    features = [[int(v % 4 == k) + v % 5 / 20 for k in range(4)] for v in nodes]
    np.save(run_with_odd_ids / "g" / "features.npy", features)
    words = "--name e erm.steps 50 gnn.dim_inner 8 dataset.format file file.labels_per_class 5"
    words = [*words.split(), "file.num_unseen", "1", "dataset.name", str(run_with_odd_ids / "g")]
    assert main(["run", "--out-dir", str(run_with_odd_ids / "results"), *FAST[:4], *words]) == 0
    return run_with_odd_ids


# Links beside a run.

PLACES = ".1.new .1.old agg agg/val .locks config.yaml 0/figures 0/result.json".split()
KINDS = ("folder", "file", "nothing", "loop")


def plant(link: Path, victim: Path, kind: str = "folder") -> None:
    """Put a link in a place, to something with content that must stay."""
    if link.is_dir() and not link.is_symlink():
        link.rename(link.with_name(f"moved{link.name}"))
    link.parent.mkdir(exist_ok=True, parents=True)
    victim.mkdir()
    (victim / "result.json").write_text("precious")
    target = {
        "folder": victim,
        "file": victim / "result.json",
        "nothing": victim / "none",
        "loop": link,
    }[kind]
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def is_whole(victim: Path) -> bool:
    return contents(victim) == {"result.json": b"precious"}


@pytest.mark.parametrize("place", PLACES)
def test_a_run_writes_through_no_link(tmp_path, capsys, place):
    flag = ("--resume", "--overwrite")[PLACES.index(place) % 2]
    words = ["run", "--name", "e", "--out-dir", str(tmp_path / "r"), "--repeat", "2", flag, *FAST]
    finish_run(new_experiment(tmp_path / "r", "e"), 0, [0.5])
    link = tmp_path / "r" / "e" / place
    kind = KINDS[PLACES.index(place) % len(KINDS)]
    plant(link, tmp_path / "victim", kind)
    before = contents(tmp_path / "r")
    assert f"{link} is a symbolic link" in refusal(main(words), capsys)
    assert is_whole(tmp_path / "victim") and link.is_symlink()
    assert contents(tmp_path / "r") == before


@pytest.mark.parametrize(
    "words, place, kind",
    [
        ("grid --grid grid.txt --resume --jobs 1 --no-tensorboard", "", "folder"),
        ("grid --grid grid.txt --resume --jobs 1 --no-tensorboard", "default-d=4", "folder"),
        ("tune --trials 1 --overwrite", "tuned/erm.yaml", "file"),
        ("tune --trials 1 --overwrite", "trials/x/agg", "file"),
    ],
)
def test_grids_and_studies_write_through_no_link(tmp_path, monkeypatch, capsys, words, place, kind):
    monkeypatch.chdir(tmp_path)
    Path("grid.txt").write_text("gnn.dim_inner  d  [4]\n")
    plant(tmp_path / "r" / "g" / place, tmp_path / "victim", kind)
    words = [*words.split(), "--name", "g", "--out-dir", str(tmp_path / "r")]
    error = refusal(main([*words, "train.mode", "erm", *SMALL_TASK]), capsys)
    assert f"{place} is a symbolic link" in error
    assert is_whole(tmp_path / "victim")


@pytest.mark.parametrize(
    "step, place",
    [("claim", ".locks"), ("claim", ".locks/1"), ("claim", ".1.new"), ("aggregate", "agg")],
)
def test_a_link_that_comes_after_the_plan_is_not_followed(tmp_path, step, place):
    """As in a worker of a grid, or when a run comes back from a cluster."""
    one = new_experiment(tmp_path, "one")
    finish_run(one, 0, [0.5])
    plant(tmp_path / "one" / place, tmp_path / "victim")
    steps = {"claim": lambda: one.claim(1).__enter__(), "aggregate": one.aggregate}
    with pytest.raises(InputError, match=f"{re.escape(place)} is a symbolic link"):
        steps[step]()
    assert is_whole(tmp_path / "victim")


def test_a_file_and_a_folder_are_replaced_through_no_link(tmp_path):
    temporary = tmp_path / f".a.txt.{os.getpid()}.tmp"
    plant(temporary, tmp_path / "victim", "file")
    atomic.write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new" and not (tmp_path / "a.txt").is_symlink()
    assert is_whole(tmp_path / "victim") and not temporary.is_symlink()
    for number, name in enumerate((f".g.{os.getpid()}.new", ".g.srnc-old")):
        plant(tmp_path / name, tmp_path / f"victim{number}", KINDS[number])
        atomic.restore(tmp_path / "g")
        with atomic.replacing_folder(tmp_path / "g", lambda: None) as new:
            (new / "nodes.csv").touch()
        assert is_whole(tmp_path / f"victim{number}")
        assert (tmp_path / "g" / "nodes.csv").is_file() and not (tmp_path / "g").is_symlink()


# Output files.


RESULTS = "results/e/0/result.json results/e/config.yaml g/words.txt mine.xyz /dev/stdout"
OUTPUTS = {
    "compare results/e --overwrite --out": RESULTS,
    "report results/e --overwrite --out": "results/e/0/model.safetensors",
    "predict results/e --overwrite --out": "g/nodes.csv link.csv",
    "discover results/e --overwrite --csv": "g/edges.csv",
    "discover results/e --csv both.csv --nodes": "both.csv",
    "discover results/e --name 1=a --labels-out": "mine",
    "compare results/e --out": "mine.tex",
    "report results/e --out": "mine.html",
    "discover results/e --out": "mine.html",
    "predict results/e --out": "mine.csv",
}


@pytest.mark.parametrize(
    "words, name", [(words, name) for words in OUTPUTS for name in OUTPUTS[words].split()]
)
def test_no_output_replaces_results_or_other_files(
    run_with_odd_ids, monkeypatch, capsys, words, name
):
    monkeypatch.chdir(run_with_odd_ids)
    Path("mine").mkdir(exist_ok=True)
    for file in ("mine.xyz", "mine.tex", "mine.html", "mine.csv", "mine/a.png", "g/words.txt"):
        Path(file).write_text("mine")
    with contextlib.suppress(FileExistsError):
        Path("link.csv").symlink_to("g/nodes.csv")
    before = contents(run_with_odd_ids)
    try:
        error = refusal(main([*words.split(), name]), capsys)
        assert error.startswith(f"error: {words.split()[-1]}: "), error
        is_own = "both" in name  # an output of the command itself
        assert ("add --overwrite" in error) == ("--overwrite" not in words and not is_own)
        assert contents(run_with_odd_ids) == before
    finally:
        Path("g/words.txt").unlink()


@pytest.mark.filterwarnings("ignore")
def test_a_saved_model_replaces_no_results(run_with_odd_ids):
    model = ERM(hidden=4, steps=1, rounds=0).fit(make_task())
    run = run_with_odd_ids / "results" / "e" / "0"
    before = contents(run_with_odd_ids)
    for name in ("model.safetensors", "result.json"):
        with pytest.raises(InputError, match="^path: .* belongs to results"):
            model.save(run / name)
    assert contents(run_with_odd_ids) == before


def test_a_run_does_not_replace_the_config_that_it_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/config.yaml").write_text("train: {mode: erm}\n")
    for more in ([], ["--resume"], ["--overwrite"]):
        words = ["--cfg", "mine/config.yaml", "--out-dir", ".", "--name", "mine", *more]
        assert main(["run", *words, *FAST]) == 2
        assert "did not write mine/config.yaml" in capsys.readouterr().err
    assert contents(Path("mine")) == {"config.yaml": b"train: {mode: erm}\n"}


# Ids.

STAY = "-1 +49170 -3.5e2 -1,5 @user @angular/core @types/node-fetch a=b a-b 1;2".split()


def test_formulas_are_disarmed():
    for text in (*STAY, "+49 170 123", ""):
        assert guarded(text) == text
    # ~ stands where the mark is added.
    for safe in ("~=1+2", "~-1+cmd|x", "~@SUM(A1)", "~+a", "\t~=x", "a;~=cmd()", "a\n~=b", "~＝x"):
        assert guarded(safe.replace("~", "")) == safe.replace("~", "'")
    assert (guarded(' "=x'), guarded("-1;=x")) == (" \"'=x", "'-1;'=x")


def test_a_join_on_id_finds_all_rows(run_with_odd_ids, monkeypatch, capsys):
    monkeypatch.chdir(run_with_odd_ids)
    words = ["discover", "results/e", "--clusters", "4", "--name", "1=new", "--nodes", "ids.csv"]
    assert main(["predict", "results/e", "--out", "ids.csv", "--overwrite"]) == 0
    ids = [row["id"] for row in rows("ids.csv")]
    assert [id for id in ids if id in IDS] == [id for id in IDS if id[0] != "=" and "|" not in id]
    assert [id.replace("'", "") for id in ids] == IDS
    told = re.findall(r"(\d+) cells would be formulas", capsys.readouterr().err)
    assert told == [str(sum(id not in IDS for id in ids))]
    # The table of discover is read again, though its ids were changed.
    assert main([*words, "--overwrite"]) == 0
    assert [row["id"] for row in rows("ids.csv")] == ids
    assert {row["cluster_name"] for row in rows("ids.csv")} >= {"new"}


# The terminal.

QUICK = (["options", "srnc"], ["run", "--name", "t", "--overwrite", *FAST])
SHELLS = {
    "full disk": '"$@" >/dev/full',
    "no reader": 'set -o pipefail; "$@" | true',
    "ascii": 'LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii "$@"',
}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="shell")
@pytest.mark.parametrize(
    "shell, words", [*((shell, QUICK[0]) for shell in SHELLS), ("ascii", QUICK[1])]
)
def test_a_terminal_that_takes_no_text(run_with_odd_ids, shell, words):
    done = ended(
        ["bash", "-c", SHELLS[shell], "x", *program_words(*words)],
        cwd=run_with_odd_ids,
        timeout=120,
    )
    told = done.stdout.replace("traceback of internal errors", "") + done.stderr
    assert not re.search("internal error|Traceback|Exception ignored", told), told
    assert len(re.findall("^(?!note|usage|  )", done.stderr, re.M)) <= 2, done.stderr
    assert done.returncode in (0, 1, 2, 141)
    if shell == "no reader":
        assert done.returncode == 141 and not done.stderr
    if shell == "full disk":
        assert done.returncode == 1 and "No space left" in done.stderr
    if words == QUICK[1]:
        assert done.returncode == 0 and done.stdout.isascii()


def test_names_that_begin_alike_are_short_in_different_ways():
    begin = "oxidoreductase activity, acting on "
    names = [f"{begin}CH-OH group", f"{begin}the CH-CH group", "lyase", f"{begin}CH-OH group"]
    names += ["transferase activity of others", "a" * 30, "a" * 31]
    found = apart(names)
    assert found[:4] == ["oxid…CH-OH group", "oxid…the CH-CH gr…", "lyase", "oxid…CH-OH group"]
    assert found[4] == "transferase activ…"
    assert found[5:] == ["a" * 17 + "…"] * 2, "there is no word by which they differ"
    assert all(len(form) <= 18 for form in found)

"""The store keeps what is finished, sees what is half-written, and writes what GraphGym reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile

import pytest
from conftest import contents
from stored import CONFIG, finish_run, new_experiment, run_record

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic, checksums, records, settings, store


def refused(match: str, call, *args, error=InputError, **options) -> None:
    with pytest.raises(error, match=match):
        call(*args, **options)


def test_a_result_reads_back_whole(tmp_path):
    exp = new_experiment(tmp_path)
    assert exp.plan([0]) == [0] and not list(tmp_path.iterdir())
    written = finish_run(exp, 0, [0.5, 0.7])
    read = records.read_result(tmp_path / "toy" / "0")
    assert read == written and read["seed"] == 0 and read["config"]["train"]["mode"] == "erm"
    assert read["digest"] == settings.digest(CONFIG) and read["versions"]["torch"]
    assert (tmp_path / "toy" / "config.yaml").read_text() == "seed: 0\n"
    elsewhere = {"seed": 9, "out_dir": "x", "dataset": {**CONFIG["dataset"], "dir": "there"}}
    assert settings.digest(CONFIG) == settings.digest(CONFIG | elsewhere)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="no oracle")
def test_sha256sum_reads_our_checksums(tmp_path):
    exp = new_experiment(tmp_path)
    (exp.begin(0) / "figures").mkdir()
    for name in ("figures/a.png", ".a.tmp", records.LOG, records.CHECKPOINT):
        (exp.path / "0" / name).write_bytes(b"a")
    exp.finish(0, run_record([0.5]))
    exp.aggregate()
    for folder, names in (
        (exp.path, {"config.yaml", "agg/val/best.json", "0/val/stats.json"}),
        (exp.path / "0", {"run.json", "result.json", "figures/a.png"}),
    ):
        words = ["sha256sum", "--strict", "-c", checksums.FILE]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
        listed = {line.removesuffix(": OK") for line in done.stdout.splitlines()}
        assert listed >= names and not any(".tmp" in name or "log" in name for name in listed)


def test_finished_results_need_a_flag(tmp_path):
    finish_run(new_experiment(tmp_path), 0, [0.5])
    before = contents(tmp_path)
    refused(r"toy contains runs .seed 0.", new_experiment(tmp_path).plan, [0, 1])
    assert new_experiment(tmp_path).plan([0, 1], resume=True) == [1]
    assert new_experiment(tmp_path).plan([0, 1], overwrite=True) == [0, 1]
    assert new_experiment(tmp_path).plan([1, 2]) == [1, 2]
    other = new_experiment(tmp_path, train={"mode": "srnc", "patience": 0})
    for how in ({}, {"resume": True}, {"overwrite": True}):
        refused("train.mode: 'erm' before, 'srnc' now", other.plan, [1], **how)
    assert contents(tmp_path) == before


def test_overwrite_replaces_a_run_only_when_its_successor_begins(tmp_path):
    for seed in (0, 1):
        finish_run(new_experiment(tmp_path), seed, [0.5])
    other = new_experiment(tmp_path, train={"mode": "srnc", "patience": 0})
    assert other.plan([0, 1], overwrite=True) == [0, 1]
    assert len(records.read_results(other.path)) == 2
    finish_run(other, 0, [0.9])
    found = records.read_results(other.path)
    assert [found[seed]["val"]["micro_f1"] for seed in (0, 1)] == [0.9, 0.5]
    assert other.result(1) is None


def forge(file, **changes) -> None:
    """A record with a right checksum."""
    records.write_record(file.parent, json.loads(file.read_text()) | changes)


@pytest.mark.parametrize(
    "damage, problem",
    [
        (lambda file: file.write_bytes(file.read_bytes()[:100]), "checksum is wrong"),
        (lambda file: (file.parent / "SHA256SUMS").unlink(), "cannot be verified"),
        (lambda file: (file.parent / "SHA256SUMS").write_text("x\n"), "cannot be verified"),
        (lambda file: forge(file, seed=0), "is not what this program writes"),
        (lambda file: forge(file, format=9), "is not what this program writes in format 2"),
    ],
)
def test_a_damaged_record_is_told_and_run_again(tmp_path, damage, problem):
    for seed in (0, 1):
        finish_run(new_experiment(tmp_path), seed, [0.5, 0.7])
    file = tmp_path / "toy" / "1" / "result.json"
    damage(file)
    exp = new_experiment(tmp_path)
    refused("contains runs .seed 1.", exp.plan, [1])
    assert exp.plan([0, 1], resume=True) == [1] and list(records.read_results(exp.path)) == [0]
    assert len(exp.warnings) == 1 and "toy/1/result.json" in exp.warnings[0].replace(os.sep, "/")
    assert problem in exp.warnings[0] and "is run again" in exp.warnings[0]
    assert exp.plan([0, 2], resume=True) == [2] and "is left out" in exp.warnings[0]
    with exp.claim(1) as present:
        assert present is None
        finish_run(exp, 1, [0.5, 0.7])
    assert exp.plan([0, 1], resume=True) == exp.warnings == []


def test_what_has_come_since_the_plan_stays(tmp_path):
    first = new_experiment(tmp_path)
    second = new_experiment(tmp_path)
    other = new_experiment(tmp_path, train={"mode": "srnc", "patience": 0})
    for exp in (first, second, other):
        assert exp.plan([0, 1]) == [0, 1]
    with first.claim(0) as present:
        assert present is None
        with pytest.raises(store.Busy), second.claim(0):
            pass
        finish_run(first, 0, [0.5])
    whole = contents(tmp_path / "toy" / "0")
    with second.claim(0) as present:
        assert present["val"]["micro_f1"] == 0.5
    with pytest.raises(InputError, match="another config"), other.claim(0):
        pass
    (tmp_path / "toy" / "1" / "val").mkdir(parents=True)
    refused("did not write", new_experiment(tmp_path).plan, [1], resume=True)
    with pytest.raises(InputError, match="did not write"), second.claim(1):
        pass
    assert contents(tmp_path / "toy" / "0") == whole
    with second.claim(0, overwrite=True) as present:
        assert present is None


def test_a_finished_run_of_the_same_config_and_data_is_taken_over(tmp_path):
    there = new_experiment(tmp_path / "there")
    finish_run(there, 0, [0.5])
    other = new_experiment(tmp_path / "here", train={"mode": "srnc", "patience": 0})
    refused("not a finished run of the config", other.adopt, 0, there.path / "0", "s0")
    refused("other data", new_experiment(tmp_path / "here").adopt, 0, there.path / "0", "s1")
    assert not records.seeds_of(other.path)
    here = new_experiment(tmp_path / "here")
    here.adopt(0, there.path / "0", "s0")
    assert here.result(0) == there.result(0)


def test_seeds_that_cannot_be():
    for first, repeat in ((-1, 1), (2**32 - 1, 2)):
        refused("^seed: got", store.seeds, first, repeat)
    for repeat in (0, 10**12):
        refused("^repeat: got", store.seeds, 0, repeat)
    assert list(store.seeds(2**32 - 2, 2)) == [2**32 - 2, 2**32 - 1]


@pytest.mark.parametrize("name", ["", "..", "../up", "a/b", "a\\b", ".hidden", "a\0b", "x" * 201])
def test_names_that_would_leave_the_directory_are_refused(tmp_path, name):
    refused("name", new_experiment, tmp_path, name)


def test_a_place_that_cannot_be_written_to_is_told_at_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    refused("Not a directory", new_experiment, tmp_path / "file" / "deeper")

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    refused("Permission denied", new_experiment, tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    atomic.write_text(file, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    refused("No space", atomic.write_text, file, "new", error=OSError)
    assert contents(tmp_path) == {"a.txt": b"old"}


def test_aggregates_have_mean_and_population_std_of_the_selected_episodes(tmp_path):
    exp = new_experiment(tmp_path)
    for seed, scores in {0: [0.5, 0.7], 1: [0.6, 0.9, 0.8]}.items():
        finish_run(exp, seed, scores)
    assert list(exp.aggregate()) == [0, 1]
    best = json.loads((tmp_path / "toy" / "agg" / "test" / "best.json").read_text())
    assert best["micro_f1"] == pytest.approx(0.7) and best["epoch"] == 1
    assert best["micro_f1_std"] == pytest.approx(0.1)
    text = (tmp_path / "toy" / "agg" / "val" / "stats.json").read_text()
    lines = list(map(json.loads, text.splitlines()))
    # The shorter run goes on with the weights of its best episode.
    assert [line["accuracy"] for line in lines] == pytest.approx([0.55, 0.8, 0.75])
    assert lines[2]["held"] == 0.5


def test_a_misspelt_folder_of_a_run_names_the_one_meant(tmp_path):
    (tmp_path / "own-diag").mkdir()
    with pytest.raises(InputError, match="contains no finished run. Did you mean own-diag?"):
        records.finished_run(tmp_path / "own-diagg")
    (tmp_path / "results" / "graph").mkdir(parents=True)
    for given in ("graph", "graphh"):  # a graph folder beside the results may have this name
        (tmp_path / given).mkdir()
        with pytest.raises(InputError) as error:
            records.finished_run(tmp_path / given)
        meant = tmp_path / "results" / "graph"
        assert (f"Did you mean {meant}?" in str(error.value)) == (given == "graph")
    with pytest.raises(InputError, match="Give the folder of a finished run"):
        records.finished_run(tmp_path / "own-diag")

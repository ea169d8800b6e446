"""The programs that damage files, fail disks and kill commands: a small run of each, and that they
notice what is wrong."""
from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def faults(benchmark_of):
    return benchmark_of("faults")


def table(tmp_path: Path, *words: str) -> str:
    """What a program prints that finds nothing wrong."""
    done = subprocess.run([sys.executable, *words, "--out-dir", str(tmp_path / "out")], cwd=FOLDER,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(
                              [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])},
                          capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_is_wrong_in_silence(tmp_path):
    out = table(tmp_path, "faults.py", "--trials", "20")
    rows = [line.split("|") for line in out.splitlines() if line.startswith("| all")]
    assert [row[2].strip() for row in rows] == ["20"] * 3
    assert [row[-2].strip() for row in rows] == ["0"] * 3
    assert all(int(row[3]) > 2 for row in rows), "some are refused"


def test_kills_and_pairs(tmp_path):
    few = ("import sys, kills; kills.PAIRS = {name: kills.PAIRS[name] for name in ('data make', "
           "'predict')}; sys.exit(kills.main(sys.argv[1:]))")
    out = table(tmp_path, "-c", few, "--trials", "1")
    rows = [line.split("|") for line in out.splitlines() if line.startswith("| all")]
    assert [row[-2].strip() for row in rows] == ["0"] * 2
    assert int(rows[0][3]) > 5, "some are killed"


def test_other_numbers_without_a_word_are_noticed(faults, tmp_path, capsys):
    path = tmp_path / "a.txt"
    path.write_bytes(b"0.5")

    def read(file: Path) -> bytes:
        return file.read_bytes()

    draw = random.Random(0)
    assert faults.flip(faults.Kind([path], read), draw, path, b"0.5")[0] == "WRONG"
    assert path.read_bytes() == b"0.5"

    def told(file: Path) -> bytes:
        print("note", file=sys.stderr)
        return file.read_bytes()

    assert faults.flip(faults.Kind([path], told), draw, path, b"0.5")[0] == "told"
    assert faults.flip(faults.Kind([path], lambda file: 7), draw, path, 7)[0] == "harmless"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "load_config", lambda *words: {"seed": 1})
        assert faults._accepted(lambda: {"seed": 1}, {"seed": "2"})[0] == "WRONG"
        assert faults._accepted(lambda: {"seed": 2}, {"seed": "2"})[0] == "harmless"


def test_a_fault_leaves_the_half(faults, tmp_path):
    (tmp_path / "old").write_text("old")
    with faults.faulty(tmp_path) as seen:
        (tmp_path / "new").write_text("12345678")
        os.replace(tmp_path / "new", tmp_path / "old")
    assert seen == ["open to write", "write", "replace"]
    with faults.faulty(tmp_path, faults.failing(2, errno.ENOSPC, False)), pytest.raises(OSError):
        (tmp_path / "new").write_text("12345678")
    assert (tmp_path / "new").read_text() == "1234"


def test_ends_that_must_not_be(faults):
    end = faults.commands.End
    for status, err, wrong in ((0, "", ""), (2, "error: a\n", ""), (1, "", "without a word"),
                               (2, "error: a\nerror: b\n", "2 lines"), (70, "x", "status 70"),
                               (1, "internal error: a\n", "not told"), (1, "Traceback\n", "not")):
        assert wrong in end(status, err).wrong and bool(wrong) == bool(end(status, err).wrong)
    lost = faults.commands.lost
    assert lost({"a": "1"}, {}, {"a": "2"}) == "a is gone"
    assert lost({"a": "1"}, {"a": "3"}, {"a": "2"}) == "a is another one"
    assert lost({}, {"b": "1"}, {}) == "b is another one"
    assert not lost({"a": "1"}, {"a": "2"}, {"a": "2"})

"""The program that damages files, fails disks and kills commands: a small run of each part, and
that it notices what is wrong."""

from __future__ import annotations

import errno
import functools
import os
import random
import sys
from pathlib import Path

import pytest
from conftest import ended

FOLDER = Path(__file__).parent.parent / "benchmarks"
PARTS = ["flips", "inputs", "disk", "kills", "forged", "races"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def faults(benchmark_of, tmp_path, monkeypatch):
    """The program in a folder with the file ``a.txt``."""
    program = benchmark_of("faults")
    for name in ("place", "first"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_bytes(b"0.5")
    monkeypatch.chdir(tmp_path / "place")
    return program


@pytest.fixture
def show(faults, monkeypatch):
    """The only command is ``show FILE``, which prints a file."""

    def shown(note: str, words: list[str]) -> int:
        faults.audit("open", words[1:])
        print(Path(words[1]).read_bytes())
        print(note)
        return 0

    monkeypatch.setattr(faults, "command", functools.partial(shown, ""))
    monkeypatch.setattr(faults, "COMMANDS", [""] * 3 + ["show a.txt"])
    return shown


@pytest.mark.slow
def test_nothing_is_wrong_in_silence(tmp_path):
    words = [sys.executable, "faults.py", "--trials", "24", "--out-dir", str(tmp_path)]
    done = ended(words, cwd=FOLDER, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("all ")]
    assert [row[-2:] for row in rows] == [["0", "24"]] * 6
    refused = dict(zip(PARTS, (int(row[0]) for row in rows)))
    # About one forged value in thirty is refused: a command does not use most of a record.
    assert all(refused[part] for part in PARTS if part != "forged"), refused


@pytest.mark.parametrize(
    "note, outcome", [("", "WRONG"), ("! a.txt was edited", "told"), ("internal error: a", "WRONG")]
)
def test_a_flipped_bit_must_be_told(faults, show, monkeypatch, note, outcome):
    case = faults.cases("flips")[0]
    monkeypatch.setattr(faults, "command", functools.partial(show, note))
    assert faults.trial("flips", case, random.Random(0))[0] == outcome
    assert Path("a.txt").read_bytes() == b"0.5", "it is put back"


def test_a_lost_file_is_wrong(faults, show, monkeypatch):
    case = faults.cases("disk")[0]
    monkeypatch.setattr(faults, "command", lambda words: print("! note") or os.remove("a.txt") or 0)
    outcome, why = faults.trial("disk", case, random.Random(0))
    assert outcome == "WRONG" and "{'a.txt'} are lost" in why


def test_an_operation_fails(faults, show):
    class Draw(random.Random):
        def choice(self, options):
            return errno.ENOSPC if errno.ENOSPC in options else options[0]

    end = faults.failing(Draw(0), ["show", "a.txt"], 1)
    assert end.status == 70 and "No space left on device" in end.wrong
    assert faults.failing(Draw(0), ["show", "a.txt"], 2).status == 0


@pytest.mark.parametrize(
    "status, text, wrong",
    [
        (0, "", ""),
        (2, "error: a", ""),
        (1, "", "said nothing"),
        (70, "error: a", "status 70"),
        (2, "Traceback", "2"),
    ],
)
def test_ends_that_must_not_be(faults, status, text, wrong):
    end = faults.End(status, text)
    assert wrong in end.wrong and bool(wrong) == bool(end.wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_another_graph_without_a_note_is_wrong(faults, monkeypatch):
    monkeypatch.setattr(faults, "COMMANDS", [])
    case = faults.cases("inputs")[0]

    def judged() -> set[str]:
        return {faults.trial("inputs", case, random.Random(seed))[0] for seed in range(30)}

    assert judged() == {"refused", "harmless"}
    monkeypatch.setattr(faults, "MISSING", ["a word which is read as a class"])
    assert "WRONG" in judged()

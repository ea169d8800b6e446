"""The program that damages files, fails disks and kills commands: a small run of each part, and
that it notices what is wrong."""

from __future__ import annotations

import errno
import functools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from graphgym_srnc.cli.main import main

FOLDER = Path(__file__).parent.parent / "benchmarks"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def faults(benchmark_of, tmp_path, monkeypatch):
    """The program in a folder with the file ``a.txt``, where ``show FILE`` prints a file."""
    program = benchmark_of("faults")
    for name in ("place", "first"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_bytes(b"0.5")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setattr(program, "command", functools.partial(show, program, ""))
    monkeypatch.setattr(program, "COMMANDS", [""] * 3 + ["show a.txt"])
    return program


def show(program, note: str, words: list[str]) -> int:
    program.audit("open", words[1:])
    print(Path(words[1]).read_bytes())
    print(note)
    return 0


@pytest.mark.slow
def test_nothing_is_wrong_in_silence(tmp_path):
    words = [sys.executable, "faults.py", "--trials", "24", "--out-dir", str(tmp_path)]
    path = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, timeout=900, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| all")]
    assert [row[-1] for row in rows] == ["24 |"] * 4
    assert [row[-2] for row in rows] == ["0"] * 4
    assert all(int(row[1]) > 2 for row in rows), "some are refused, or killed"


@pytest.mark.parametrize(
    "note, outcome", [("", "WRONG"), ("! a.txt was edited", "told"), ("internal error: a", "WRONG")]
)
def test_a_flipped_bit_must_be_told(faults, monkeypatch, note, outcome):
    trial = faults.faults("flips")
    monkeypatch.setattr(faults, "command", functools.partial(show, faults, note))
    assert trial(0, random.Random(0))[1] == outcome
    assert Path("a.txt").read_bytes() == b"0.5", "it is put back"


def test_a_lost_file_is_wrong(faults, monkeypatch):
    trial = faults.faults("disk")
    monkeypatch.setattr(faults, "command", lambda words: print("! note") or os.remove("a.txt") or 0)
    _, outcome, why = trial(0, random.Random(0))
    assert outcome == "WRONG" and "a.txt is lost" in why


def test_an_operation_fails(faults, monkeypatch):
    class Draw(random.Random):
        def choice(self, options):
            return errno.ENOSPC if errno.ENOSPC in options else super().choice(options)

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
def test_another_graph_without_a_note_is_wrong(faults, tmp_path, monkeypatch):
    import graphgym_srnc

    read = graphgym_srnc.from_frames

    def careless(nodes, links, **options):
        """Reads ``unknown`` as a class."""
        return read(nodes.replace({"team": {"unknown": "not a class"}}), links, **options)

    def judged() -> set[str]:
        return {
            trial(number, random.Random(number))[1]
            for number in range(
                faults.KINDS.index("frames"), 40 * len(faults.KINDS), len(faults.KINDS)
            )
        }

    monkeypatch.setattr(faults.resource, "setrlimit", lambda *limits: None)
    monkeypatch.setattr(faults, "command", main)
    trial = faults.inputs("inputs")
    assert "WRONG" not in judged()
    monkeypatch.setattr(graphgym_srnc, "from_frames", careless, raising=False)
    assert "WRONG" in judged()

"""The tutorials do what they say: each shell block runs, in order, as a user types it.

The example graph is a tenth of its size. test_docs_commands.py runs first-run.md, in short runs.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ended, environment

pytestmark = pytest.mark.slow

TUTORIALS = Path(__file__).parents[1] / "docs/tutorials"


@pytest.mark.parametrize(
    "name", sorted({path.stem for path in TUTORIALS.glob("*.md")} - {"first-run"})
)
def test_commands_run(name, tmp_path):
    commands = re.findall(
        r"^```bash\n(.*?)^```$", (TUTORIALS / f"{name}.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert commands
    script = "".join(commands).replace("data example demo", "data example demo --nodes 2000")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/graphgym-srnc"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphgym_srnc "$@"\n')
    command.chmod(0o755)
    env = environment() | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = ended(["sh", "-e", "-c", script], cwd=tmp_path, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-2000:]

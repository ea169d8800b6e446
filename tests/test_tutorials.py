"""The tutorials do what they say: the notebook, and each shell block in order.

The example graph is a tenth of its size. test_docs_commands.py runs first-run.md, in short runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ended, environment

TUTORIALS = Path(__file__).parents[1] / "docs/tutorials"
NOTEBOOK = TUTORIALS / "python.ipynb"
"""After a change: ``jupyter execute --inplace docs/tutorials/python.ipynb``."""


def test_the_stored_outputs_are_complete():
    text = NOTEBOOK.read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8 and all(cell["outputs"] for cell in code)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    without_pictures = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(r'(?<![\w/:.<>"&;+=])/\w+/\w+', without_pictures)  # a path of a machine


@pytest.mark.slow
def test_the_notebook_runs():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(NOTEBOOK, as_version=4)
    stored = [[*cell.get("outputs", ())] for cell in book.cells]
    client.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    outputs = [cell.get("outputs", ()) for cell in book.cells]
    outputs = [[one for one in cell if one.get("name") != "stderr"] for cell in outputs]
    assert [*map(len, stored)] == [*map(len, outputs)]
    for old, new in zip(sum(stored, []), sum(outputs, [])):
        texts = (one.get("text") or one["data"].get("text/plain", "") for one in (old, new))
        before, now = ([*map(float, re.findall(r"-?\b0\.\d+", text))] for text in texts)
        assert before == pytest.approx(now, abs=0.03)  # CPUs round differently


def install(folder: Path) -> None:
    """Write the method of the tutorial as a plug-in, and its config, into a folder."""
    text = (TUTORIALS / "method.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:python|yaml)\n(.*?)^```$", text, re.M | re.S)
    (folder / "infomax_plugin.py").write_text(blocks[0])
    (folder / "infomax.yaml").write_text(
        blocks[1].replace("{mode: close", "{num_nodes: 400, mode: close")
    )
    info = folder / "infomax_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: infomax_plugin\nVersion: 1\n")
    entry = "[graphgym_srnc.methods]\ninfomax = infomax_plugin:InfoMax\n"
    (info / "entry_points.txt").write_text(entry)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted({path.stem for path in TUTORIALS.glob("*.md")} - {"first-run"})
)
def test_commands_run(name, tmp_path):
    commands = re.findall(
        r"^```bash\n(.*?)^```$", (TUTORIALS / f"{name}.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert commands
    script = "".join(commands).replace("data example demo", "data example demo --nodes 2000")
    if name == "method":
        install(tmp_path)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/graphgym-srnc"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphgym_srnc "$@"\n')
    command.chmod(0o755)
    env = environment() | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = ended(["sh", "-e", "-c", script], cwd=tmp_path, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    if name == "method":  # one table compares the tutorial's method with its rivals
        rows = re.findall(r"^(infomax|GCN-CORAL|GCN) +\d", done.stdout, re.M)
        assert sorted({*rows}) == ["GCN", "GCN-CORAL", "infomax"]

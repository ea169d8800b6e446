"""The notebook tutorial runs, and its stored outputs come from a run without problems."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs/tutorials/python.ipynb"
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
    assert not re.search(r"/tmp/|/work/|/home/|/root/", text)


@pytest.mark.slow
def test_it_runs():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(NOTEBOOK, as_version=4)
    stored = [len(cell.get("outputs", ())) for cell in book.cells]
    client.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    shown = [
        len([output for output in cell.get("outputs", ()) if output.get("name") != "stderr"])
        for cell in book.cells
    ]
    assert shown == stored

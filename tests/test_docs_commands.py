"""Every command of the README and the manual: run here or elsewhere, or not, with the reason.

A page's commands run in their order, in one empty folder, as a user would type them. Public data
sets are small graphs made in memory, training is short, and of ``--repeat`` runs there is one.
"""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import written
from torch_geometric.data import Data

from graphgym_srnc.cli.main import main
from graphgym_srnc.data import datasets
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.data.networks import CITATION
from graphgym_srnc.own import example

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
]
PROGRAMS = "graphgym-srnc python pip tensorboard torchrun ray sbatch mkdocs ruff".split()

ELSEWHERE = {
    "docs/tutorials/own-graph.md": "test_tutorials.py",
    "docs/tutorials/method.md": "test_tutorials.py",
    "docs/tutorials/paper.md": "test_tutorials.py, but for the block of the open-set table",
}
"""Pages whose commands another test runs."""

REAL = "hundreds of runs on downloaded graphs; docs/tutorials/paper.md rehearses the same commands"
INSTALL = "installs packages; .ci/run does it in an empty environment"
CLUSTER = "needs several machines; tests/test_ray.py starts a cluster of one"
NOT_RUN = {
    "pip install": INSTALL,
    "python -m venv": INSTALL,
    "python -m pytest": "the tests themselves",
    "ruff": ".ci/run does",
    "graphgym-srnc grid --grid grids/open_set --repeat 10 --jobs 2": REAL,
    "graphgym-srnc compare results/default_grid_open_set": REAL,
    "graphgym-srnc report results/default_grid_open_set": REAL,
    "graphgym-srnc grid --cfg paper/open_set/cora-srnc --grid my_grid.txt": REAL,
    "graphgym-srnc report results/my_grid": "of that grid; tests/test_report_html.py",
    "graphgym-srnc discover results/cora --labels": "after the reader has filled the table, as"
    " tests/test_held_out.py does",
    "graphgym-srnc tune": "hours on the citation networks; tests/test_tune.py runs it",
    "graphgym-srnc grid --grid results/citation-erm_tune/tuned.txt": "what tune leaves, see there",
    "ray start": CLUSTER,
    "graphgym-srnc grid --executor ray": CLUSTER,
    "sbatch": CLUSTER,
    "torchrun": "starts processes; tests/test_parallel.py does",
    "tensorboard": "a server; tests/test_tensorboard.py reads the events as it does",
}
"""The beginning of each command that is not run, and the reason."""

FIRST = {
    page: ["graphgym-srnc run"]
    for page in ("docs/how-to/reports.md", "docs/reference/results-folder.md")
}
"""What must have happened before a page's first command."""

SHORT = (
    "--no-figures --no-tensorboard gnn.dim_inner 8 train.max_episodes 1 srnc_plus.steps 50"
    " srnc.steps 5 pgl.steps 5 iid.steps 5 erm.steps 5 srnc.pretrain_steps 5 srnc.cluster_steps 5"
    " srnc_plus.fit_steps 5 srnc_plus.cluster_steps 5"
).split()
"""Words that make a run short, and change no folder's name."""


def commands(page: str) -> list[str]:
    """The commands in a page's blocks, fenced or indented, each on one line without its comment."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = re.findall(r"^```(?:bash|console)\n(.*?)^```$", text, re.M | re.S)
    indented = re.findall(
        r"^ {4}(?=\w)(.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M
    )
    lines = [*"".join(fenced).splitlines(), *indented]
    parts = [
        " ".join(part.split())
        for line in lines
        for part in re.split(r" # |  #|&&", line)[: 1 if "&&" not in line else None]
    ]
    return [part for part in parts if part.partition(" ")[0] in PROGRAMS]


def reason(command: str) -> str | None:
    """Why a command is not run; ``--dry-run`` always can be."""
    if "--dry-run" in command:
        return None
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


def test_there_is_no_reason_for_a_command_that_is_gone():
    every = [command for page in PAGES for command in commands(page)]
    assert len(every) > 60
    for start in NOT_RUN:
        assert any(command.startswith(start) for command in every), start


@pytest.fixture
def prepared(gym, tmp_path, monkeypatch):
    """An empty folder with the files that pages speak of, and small graphs for public ones."""

    def graph(seed: int, classes: int = 7) -> Data:
        return clean(written.graph(260, classes, 60, seed)).update({"num_two": 0})

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAPHGYM_SRNC_DATA", raising=False)  # real graphs would be trained on
    monkeypatch.setattr(
        datasets, "load", lambda name, root="": graph(0, {"PubMed": 3}.get(name, 7))
    )
    monkeypatch.setattr(CITATION, "load", lambda name, *_: graph(len(name)))
    example.write(tmp_path / "demo", num_nodes=300, labelled=0.3)
    for table in ("nodes.csv", "edges.csv"):
        (tmp_path / table).write_bytes((tmp_path / "demo" / table).read_bytes())

    (tmp_path / "mine.txt").write_text("srnc.rounds r [1,2]\n")
    own = graph(1)
    written.graphland(tmp_path / "datasets")
    own.edge_weight = 1 + (own.edge_index.sum(0) % 3).float()
    torch.save(own, tmp_path / "weighted.pt")
    np.savez(tmp_path / "new.npz", x=own.x.numpy(), edge_index=own.edge_index.numpy())

    written.graph_folder(tmp_path / "graph", own)
    return gym


def shortened(words: list[str]) -> list[str]:
    """A run of one seed that trains a little; other commands as they are."""
    if words[0] != "run":
        return words
    if "--repeat" in words:
        words[words.index("--repeat") + 1] = "1"
    if "paper/close_set/arxiv/srnc-plus" in words:
        words += ["temporal.scale", "0.005"]
    return words + SHORT


def test_the_metric_on_the_page_for_graphgym(gym, tmp_path):
    page = (ROOT / "docs/how-to/graphgym.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(from torch_geometric.*?)^```$", page, re.M | re.S)
    exec(code, {})
    (keys,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "sure.yaml").write_text(keys)
    small = (
        "synthetic.num_nodes 300 synthetic.num_features 40 train.mode erm erm.rounds 2 erm.steps 5"
        " gnn.dim_inner 8"
    ).split()
    cfg = gym.load_config(tmp_path / "sure.yaml", small)
    _, record = gym.fit(cfg, gym.build_task(cfg))
    found = [episode.val["sure_and_right"] for episode in record.history]
    assert record.val["sure_and_right"] == max(found) and 0 <= min(found) <= max(found) <= 1

    assert '[project.entry-points."graphgym_srnc.register"]' in page


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ELSEWHERE and commands(page)]
)
def test_every_command_runs_or_has_a_reason(page, prepared):
    for command in FIRST.get(page, []) + commands(page):
        if reason(command):
            continue
        program, *words = shlex.split(command)
        assert program == "graphgym-srnc", f"neither run nor given a reason: {command}"
        if find_spec("pyarrow") is None:
            words = [word.replace(".parquet", "-table.csv") for word in words]
        assert main(shortened(words)) == 0, command

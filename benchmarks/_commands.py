"""Every command that writes, on data of a second, and what a folder holds of their results: for
``faults.py`` and ``kills.py``.

Runs of ``grid`` and ``tune`` are done in the process of the command, so that a fault meets them;
``grid.py kill`` ends their worker processes.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import torch
from torch_geometric.data import Data

import graphgym_srnc
from graphgym_srnc import methods, shifts, store
from graphgym_srnc.cli import main as cli
from graphgym_srnc.cli.main import main
from graphgym_srnc.errors import InputError
from graphgym_srnc.grid import local, worker
from graphgym_srnc.grid.jobs import Outcome, attempt
from graphgym_srnc.own.discover import evidence
from graphgym_srnc.own.discover import states as discover_states
from graphgym_srnc.report import overview, pictures
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train import model as models

TINY = ("synthetic.num_nodes 90 synthetic.num_val 20 synthetic.num_test 30 synthetic.num_features "
        "20 synthetic.labels_per_class 3 gnn.dim_inner 4 train.mode erm erm.steps 1 erm.rounds 1 "
        "train.max_episodes 1").split()
OWN = ("file.num_val 30 file.num_test 40 gnn.dim_inner 4 train.mode erm erm.steps 1 erm.rounds 1 "
       "train.max_episodes 1").split()

WRITING = {
    "run": ["run", "--repeat", "2", "--resume", "--no-figures", "--name", "new", "--out-dir", "out",
            *TINY, "train.checkpoint", "1"],
    "grid": ["grid", "--grid", "grid.txt", "--resume", "--name", "g", "--out-dir", "out", "--jobs",
             "1", "--no-tensorboard", *TINY],
    "tune": ["tune", "--trials", "2", "--seeds", "100", "--jobs", "1", "--name", "t", "--out-dir",
             "out", "--sampler", "random", *TINY],
    "predict": ["predict", "out/mine", "--out", "predicted.csv", "--overwrite"],
    "discover": ["discover", "out/mine", "--clusters", "6", "--csv", "found.csv", "--name", "1=new",
                 "--labels-out", "named", "--overwrite", "--nodes-per-class", "2"],
    "data make": ["data", "make", "tables/nodes.csv", "tables/edges.csv", "--text", "title",
                  "--max-words", "90", "--out", "made", "--overwrite"],
    "data example": ["data", "example", "example", "--nodes", "210", "--overwrite"],
    "compare": ["compare", "out/mine", "out/new", "--out", "table.csv", "--overwrite"],
    "report": ["report", "out/mine", "--out", "page.html"],
    "save": ["save"],
}
"""Words of each command; ``save`` is that of an estimator, from Python."""

FOLDERS = ("tables", "own", "made", "example", "named")
"""Those that are replaced as a whole."""

CHOSEN = {"compare": ("table.csv",), "report": ("page.html",),
          "tune": ("out/t/tuned.txt", "out/t/tuned/erm.yaml", "out/t/tuned.json")}
"""What a command makes of those results that it can read, and says so where some are missing."""


class End(NamedTuple):
    """How a command ended."""

    status: int
    err: str
    out: str = ""

    @property
    def told(self) -> bool:
        """Whether it says that something is missing though it went on."""
        return bool(self.err.strip()) or "failed" in self.out

    @property
    def wrong(self) -> str:
        """What must not be, however a command fails: more than a line, our own error, silence."""
        errors = [line for line in self.err.splitlines()
                  if line.startswith(("error", "internal", "interrupted", "Traceback", "  File"))]
        if "Traceback" in self.err or "internal error" in self.err:
            return f"an error that is not told as one: {self.err.strip()[-300:]}"
        if self.status not in (0, 1, 2, 130, 143):
            return f"exit status {self.status}"
        if len(errors) > 1:
            return f"{len(errors)} lines of errors: {self.err.strip()[-300:]}"
        return "a failure without a word" if self.status and not self.err.strip() else ""


def run(words: list[str]) -> End:
    """A command in this process, in the working folder."""
    err, out = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            status = _save() if words == ["save"] else main(words)
        except SystemExit as error:
            status = error.code
        except Exception as error:
            status, _ = 1, print(f"Traceback {type(error).__name__}: {error}", file=err)
    return End(status, err.getvalue(), out.getvalue())


def prepare(root: Path) -> None:
    """Fill a folder with what the commands read, and with older results that they replace.

    It becomes the working folder, and what only takes time is made short in this process.
    """
    torch.set_num_threads(1)
    _shorten()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    os.chdir(root)
    os.environ["GRAPHGYM_SRNC_CACHE"] = str(root.with_name(f"{root.name}-cache"))
    Path("grid.txt").write_text("gnn.dim_inner d [4,8]\n", encoding="utf-8")
    first = [["data", "example", "tables", "--nodes", "200", "--labelled", "0.5"],
             ["data", "make", "tables/nodes.csv", "tables/edges.csv", "--text", "title", "--out",
              "own"],
             ["run", "--cfg", "own", "--name", "mine", "--out-dir", "out", "dataset.name", "own",
              *OWN],
             ["run", "--no-figures", "--name", "new", "--out-dir", "out", *TINY],
             ["data", "make", "tables/nodes.csv", "tables/edges.csv", "--text", "title",
              "--max-words", "50", "--out", "made"],
             ["data", "example", "example", "--nodes", "200"], ["compare", "out/new", "--out",
                                                               "table.csv"],
             ["predict", "out/mine", "--graph", "own", "--out", "predicted.csv", "--probabilities"],
             WRITING["save"], WRITING["report"]]
    for words in first:
        end = run(words)
        assert end.status == 0, (words, end)


def contents(root: Path) -> dict[str, str]:
    """What counts of each file by its name: the numbers of records, the bytes of tables.

    Seconds, events and pictures do not; ``check`` looks these over.
    """
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not path.is_file() or "/." in f"/{name}" or path.name.endswith(".damaged"):
            continue
        if path.name == "result.json":
            found[name] = _record(path)
        elif path.suffix == ".pt":
            found[name] = _model(path)
        elif path.name in ("page.html", "tuned.json"):
            ends = "</html>" if path.suffix == ".html" else "}"
            whole = path.read_text(encoding="utf-8").rstrip().endswith(ends)
            found[name] = "whole" if whole else "half"
        elif not name.startswith("out/") or "tuned" in name:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    # A folder that is replaced is the old one or the new one, and never some files of each.
    for made in FOLDERS:
        parts = {name: found.pop(name) for name in list(found) if name.startswith(f"{made}/")}
        found |= {made: json.dumps(parts)} if parts else {}
    return found


def lost(before: dict[str, str], now: dict[str, str], after: dict[str, str],
         free: tuple[str, ...] = ()) -> str:
    """A file that is neither as it was before a command nor as it is after it, if there is one;
    those that are ``free`` may have any content."""
    for name in sorted({*before, *now}):
        if name in free and name in now or name.endswith(("checkpoint.pt", "error.txt")):
            continue
        fine = {before.get(name), after.get(name)}
        if now.get(name) not in fine:
            return f"{name} is {'another one' if name in now else 'gone'}"
    return ""


def _record(path: Path) -> str:
    result = store.read_result(path.parent)
    if result is None:
        return "damaged"
    kept = {key: result[key] for key in ("digest", "split", "selected", "val", "test", "params")}
    history = [{**episode, "seconds": 0} for episode in result["history"]]
    return hashlib.sha256(json.dumps([kept, history], sort_keys=True).encode()).hexdigest()


def _model(path: Path) -> str:
    if path.name == "checkpoint.pt":
        return ""
    try:
        state = models.load(path).method.state_dict()
    except InputError:
        return "damaged"
    return hashlib.sha256(repr([(name, value.tolist()) for name, value in state.items()])
                          .encode()).hexdigest()


@functools.cache
def task() -> ShiftTask:
    """What the estimator is fitted on."""
    return shifts.find("synthetic")(num_nodes=90, num_val=20, num_test=30, labels_per_class=3)


@functools.cache
def _fitted() -> graphgym_srnc.ERM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return graphgym_srnc.ERM(hidden=4, steps=1, rounds=0).fit(task())


def _save() -> int:
    try:
        _fitted().save("estimator.pt")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _shorten() -> None:
    """Have no processes and no drawings, and remember what depends on nothing that is written."""
    def runs(jobs: Any, execute: Callable, *rest: Any) -> Iterator[Outcome]:
        for job in jobs:
            yield Outcome(job, *attempt(functools.partial(execute, job)))

    @contextlib.contextmanager
    def warm(execute: Callable, limits: Any, workers: int = 1) -> Iterator[Callable]:
        yield lambda jobs: runs(jobs, execute)

    def once(function: Callable) -> Callable:
        kept: dict[Any, Any] = {}

        def remembered(graph: Data, posterior: torch.Tensor, *rest: Any) -> Any:
            key = graph.num_nodes, tuple(posterior.sum(0).tolist())
            if key not in kept:
                kept[key] = function(graph, posterior, *rest)
            return kept[key]
        return remembered

    local.run, local.warm, worker._release_memory = runs, warm, lambda: None
    overview.figures_of = pictures._ranks = lambda *args: iter(())
    evidence.gather = once(evidence.gather)
    discover_states.states = once(discover_states.states)
    methods.names, shifts.names = functools.cache(methods.names), functools.cache(shifts.names)
    cli.build_parser = functools.cache(cli.build_parser)

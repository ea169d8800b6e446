"""Experiments with made-up scores on the disk, and pages of HTML taken apart."""

from __future__ import annotations

import zlib
from contextlib import nullcontext
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Sequence

from graphgym_srnc.io import records, store
from graphgym_srnc.sweep import local
from graphgym_srnc.sweep.jobs import Outcome, attempt


def chunk(kind: bytes, content: bytes) -> bytes:
    size = len(content)
    checksum = zlib.crc32(kind + content)
    return size.to_bytes(4, "big") + kind + content + checksum.to_bytes(4, "big")


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", b"\0\0\0\2\0\0\0\1\x08\0\0\0\0")
    + chunk(b"IDAT", zlib.compress(b"\0\x10\xf0"))
    + chunk(b"IEND", b"")
)
"""A grey picture of two pixels."""


def experiments(root: Path) -> dict[str, dict[int, records.Result]]:
    """Finished runs of each experiment in a folder, by name and seed."""
    found = {path.name: records.read_results(path) for path in sorted(root.iterdir())}
    return {name: results for name, results in found.items() if results}


def run_in_this_process(patch: Any) -> list[str]:
    """Have the runs of grids done in this process; the returned list grows by ``name/seed``."""
    from graphgym_srnc.sweep import worker

    done: list[str] = []

    def one_by_one(jobs):
        for job in jobs:
            done.append(f"{job.name}/{job.seed}")
            yield Outcome(job, *attempt(partial(worker.execute, job)))

    patch.setattr(local, "warm", lambda *_: nullcontext(one_by_one))
    # A worker leaves out of the collection what was there at its start; here that is all of pytest.
    patch.setattr(worker, "_release_memory", lambda: None)
    return done


CONFIG = {"seed": 0, "out_dir": "results", "train": {"mode": "erm", "patience": 0}}
CONFIG |= {"dataset": {"name": "toy", "format": "file", "dir": "here"}}
NOTHING_ELSE = {"hidden_classes": [], "held_out": {}, "verdict": {"figures": {}, "sentences": {}}}


def run_record(scores: list[float], **other) -> dict:
    """A run whose episodes have these validation scores; the best is the selected one."""
    history = [
        {
            "number": number,
            "losses": {"source": 1.0 / (number + 1)} | ({"cluster": 2.0} if number else {}),
            "train": {"micro_f1": 1.0},
            "val": {"micro_f1": score, "macro_f1": score / 2},
            "test": {"micro_f1": score - 0.1, "macro_f1": score / 3},
            "seconds": 0.5,
        }
        for number, score in enumerate(scores)
    ]
    best = scores.index(max(scores))
    made = {"method": "erm", "backbone": "gcnconv", "task": "toy", "split": "s0", "info": {}}
    made |= {"fingerprint": "s0", "selection": "target_val", "selected": best, "stopped": "all"}
    made |= {"warnings": {}, "history": history, "lr": 0.01, "params": 10, "threads": 1}
    made |= NOTHING_ELSE
    return made | {"seconds": 1.0} | {part: history[best][part] for part in ("val", "test")} | other


def new_experiment(root, name: str = "toy", **changes) -> store.Experiment:
    return store.Experiment(root, name, CONFIG | changes, lambda: "seed: 0\n")


def finish_run(exp: store.Experiment, seed: int, scores: list[float]) -> dict:
    exp.begin(seed)
    return exp.finish(seed, run_record(scores))


def three_scores(score: float) -> dict[str, float]:
    return {"micro_f1": score, "macro_recall": score / 2, "unknown_fpr95": 1 - score}


def store_runs(
    root: Path,
    name: str,
    scores: Sequence[float],
    method: str = "erm",
    task: str = "open_set/Cora",
    val: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    split: str = "split",
    backbone: str = "gcnconv",
    warnings: Sequence[str] = (),
    labels: Any = None,
    record: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """An experiment with a test score per seed, at the second of two episodes.

    ``record`` replaces parts of each record; ``config`` has ``__`` for the dot of a key.
    """
    block, _, data = task.partition("/")
    settings: dict[str, Any] = {
        "seed": 0,
        "out_dir": "/somewhere/private",
        "dataset": {"name": data, "format": block, "dir": "/somewhere/private"},
        "train": {"mode": method},
        "gnn": {"layer_type": backbone},
    }
    for key, value in config.items():
        head, _, last = key.partition("__")
        settings.setdefault(head, {})[last] = value
    experiment = store.Experiment(root, name, settings)
    for seed, test, valid in zip(seeds or range(len(scores)), map(float, scores), val or scores):
        experiment.begin(seed)
        history = [
            {
                "number": number,
                "losses": {"source": 1.0},
                "train": {"micro_f1": 1.0},
                "val": three_scores(float(valid) - gap),
                "test": three_scores(test - gap),
                "seconds": 0.5,
            }
            for number, gap in enumerate((0.1, 0.0))
        ]
        result = {"method": method, "backbone": backbone, "task": task, "info": {}}
        result |= {"split": f"{task} {split} {seed}", "selection": "target_val", "selected": 1}
        result |= {"history": history, "val": history[1]["val"], "test": history[1]["test"]}
        result |= {"lr": 0.01, "params": 10, "seconds": 2.0 + seed, "threads": 1}
        result |= {"warnings": {text: text for text in warnings}, "labels": labels, **NOTHING_ELSE}
        experiment.finish(seed, result | (record or {}))
    return root / name


def store_failure(root: Path, name: str, seed: int, story: str | None) -> None:
    """A run that failed and left an error, or did not end."""
    run = root / name / str(seed)
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    if story is not None:
        (run / "error.txt").write_text(story)


class Page(HTMLParser):
    """Tags with their attributes, visible text, and the cells of each table by row; a tag that
    closes another one fails."""

    VOID = {"meta", "img", "br", "link", "input", "base", "embed", "source"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.raw = text
        self.open = []
        self.tags = []
        self.tables = []
        self.words = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append(("", dict(attributes).get("class", "")))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("th", "td"):
            text, mark = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = " ".join(text.split()), mark

    def handle_data(self, data):
        self.words.append(data)
        if {"th", "td"} & {*self.open}:
            text, mark = self.tables[-1][-1][-1]
            space = " " if self.open[-1] == "span" else ""
            self.tables[-1][-1][-1] = text + data + space, mark

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    def table(self, *heads: str) -> dict[str, list[tuple[str, str]]]:
        """The rows of the first table that begins with some heads, by the text of their head."""
        found = next(
            rows
            for rows in self.tables
            if [text for text, _ in rows[0]][: len(heads)] == list(heads)
        )
        return {row[0][0]: row[1:] for row in found[1:]}

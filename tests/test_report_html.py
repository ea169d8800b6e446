"""The page of results: all of it is there, its numbers are right, it loads nothing, and a
stranger's text stays text."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from graphgym_srnc.cli.main import build_parser, main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import atomic, store
from graphgym_srnc.report import compare, html, overview, pictures, run_tables
from graphgym_srnc.report import page as pages
from graphgym_srnc.report.read import Experiment, collect

SRC = Path(__file__).parent.parent
RNG = np.random.default_rng(0)
CENTRES = {"erm": 0.70, "pgl": 0.75, "srnc": 0.82, "iid": 0.9}
SCORES = {
    (method, task): np.round(RNG.normal(centre, 0.02, 7), 3)
    for method, centre in CENTRES.items()
    for task in ("open_set/Cora", "open_set/CiteSeer")
}
LABELS = {"Theory": {"source": 20, "target": 300}, "unseen Rules": {"source": 0, "target": 500}}
EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>{{7*123457}}{% raw %}"'&amp;\u202e"""


def chunk(kind: bytes, content: bytes) -> bytes:
    return (
        len(content).to_bytes(4, "big")
        + kind
        + content
        + zlib.crc32(kind + content).to_bytes(4, "big")
    )


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", b"\0\0\0\2\0\0\0\1\x08\0\0\0\0")
    + chunk(b"IDAT", zlib.compress(b"\0\x10\xf0"))
    + chunk(b"IEND", b"")
)
"""A grey picture of two pixels."""


class Page(HTMLParser):
    """Tags with their attributes, visible text, and the cells of each table by row; a tag that
    closes another one fails."""

    VOID = {"meta", "img", "br", "link", "input", "base", "embed", "source"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.raw, self.open, self.tags, self.tables, self.words = text, [], [], [], []
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
            self.tables[-1][-1][-1] = text + data + " " * (self.open[-1] == "span"), mark

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


def keep(
    root: Path,
    name: str,
    scores,
    method: str = "erm",
    task: str = "open_set/Cora",
    steps: int = 100,
    warnings=(),
    labels=None,
    **more,
) -> Path:
    """An experiment with a test Micro-F1 for each seed, after two episodes of which the second
    counts."""
    block, _, data = task.partition("/")
    config = {
        "seed": 0,
        "out_dir": "/somewhere/private",
        "dataset": {"name": data, "format": block, "dir": "/somewhere/private"},
        "train": {"mode": method, "max_episodes": -1},
        "gnn": {"layer_type": "gcnconv"},
        "open_set": {"num_unseen": 3},
        method: {"steps": steps, "smoothing": 0, "pseudo_labels": "cluster"},
    }
    for seed, score in enumerate(scores):
        experiment = store.Experiment(root, name, config | {"seed": seed})
        experiment.begin(seed)
        parts = [
            {"micro_f1": value, "macro_recall": value / 2} for value in (score - 0.1, float(score))
        ]
        history = [
            {
                "number": number,
                "losses": {"source": 1.0},
                "train": {"micro_f1": 1.0},
                "val": part,
                "test": part,
                "seconds": 0.5,
            }
            for number, part in enumerate(parts)
        ]
        experiment.finish(
            seed,
            {
                "method": method,
                "backbone": "gcnconv",
                "task": task,
                "split": f"{task} {seed}",
                "info": {"unseen": [3, 4], "data": data},
                "selection": "target_val",
                "selected": 1,
                "history": history,
                "val": parts[1],
                "test": parts[1],
                "lr": 0.01,
                "params": 10,
                "seconds": 2.0,
                "threads": 1,
                "warnings": list(warnings),
                "labels": labels,
            }
            | more,
        )
    return root / name


def rendered(folders: list[Path], *words, **options) -> str:
    return pages.render(collect(folders), *words, **options)


def fail(root: Path, name: str, seed: int, story: str | None) -> None:
    run = root / name / str(seed)
    run.mkdir()
    (run / "run.json").write_text("{}")
    if story is not None:
        (run / "error.txt").write_text(story)


@pytest.fixture
def undrawn(monkeypatch):
    """Pages of tests that are not about figures have none but those of runs."""
    monkeypatch.setattr(overview, "figures_of", lambda results, metric: iter(()))
    monkeypatch.setattr(pictures, "_ranks", lambda table: iter(()))


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Four methods on two data sets, a swept setting, pictures, warnings, a run that failed and one
    that did not end."""
    root = tmp_path_factory.mktemp("results")
    for (method, task), scores in SCORES.items():
        keep(
            root,
            f"{task.rpartition('/')[2]}-{method}".lower(),
            scores,
            method,
            task,
            labels=LABELS,
            warnings=("clusters collapsed",) if method == "srnc" else (),
        )
    for steps in (10, 50):
        keep(root, f"cora-erm-{steps}", SCORES["erm", "open_set/Cora"] - 1 / steps, steps=steps)
    for stem in ("confusion-selected", "confusion-episode-000", "episodes", "cluster_gnn-selected"):
        atomic.write_bytes(root / "cora-srnc" / "0" / "figures" / f"{stem}.png", PNG)
    fail(
        root,
        "cora-pgl",
        7,
        "Traceback (most recent call last):\n  File somewhere\nFloatingPointError: pgl, episode"
        " 2\n\n",
    )
    fail(root, "cora-pgl", 8, None)
    return root


@pytest.fixture(scope="module")
def page(results) -> Page:
    return Page(
        rendered(
            [results],
            ["micro_f1", "macro_recall"],
            about={"srnc": "Clusters & classes.", "open_set": "Hidden classes."},
        )
    )


def test_a_page_loads_nothing(page):
    assert re.match(r"\s*<!DOCTYPE html>", page.raw)
    policy = next(
        tag["content"]
        for tag in page.all("meta")
        if tag.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert not {"script", "link", "iframe", "object", "embed", "base", "form", "svg", "source"} & {
        tag for tag, _ in page.tags
    }
    for _, attributes in page.tags:
        for key, value in attributes.items():
            assert not key.startswith("on")
            assert key not in ("srcset", "action", "background", "poster")
            assert key != "src" or value.startswith("data:image/png;base64,")
            assert key != "href" or value.startswith("#")
    assert not re.search(r"https?:|url\(|@import|//[a-z]", re.sub(r'data:[^"]*', "", page.raw))
    assert len(page.raw) < 8_000_000


def test_a_page_has_every_part(page, results):
    places = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert (
        {link["href"][1:] for link in page.all("a")}
        == places
        == {
            "short",
            "runs",
            "scores",
            "comparison",
            "tests",
            "paper",
            "every",
            "labels",
            "curves",
            "sensitivity",
            "confusion",
            "embeddings",
            "problems",
            "settings",
            "again",
        }
    )
    every = page.table("experiment", "method", "backbone")
    assert (
        set(every)
        == {path.name for path in results.iterdir()}
        == {summary for summary in page.table("experiment", "settings")}
    )
    assert every["citeseer-srnc"][3] == ("7 seeds 0 to 6", "")
    captions = [image["alt"] for image in page.all("img")]
    assert captions == [
        "Micro-F1 on test, %: mean and interval",
        "Micro-F1: mean ranks over 14 splits",
        "open_set/CiteSeer, seed 0",
        "open_set/Cora, seed 0",
        "open_set/CiteSeer: Micro-F1 (%) by episode",
        "open_set/Cora: Micro-F1 (%) by episode",
        "open_set/Cora: test Micro-F1 (%) by erm.steps",
        "cora-srnc, seed 0: confusion",
        "cora-srnc, seed 0: episodes",
        "cora-srnc, seed 0: cluster GNN",
    ]
    for told in (
        "70 finished runs of 10 experiments",
        "4 methods (ERM, PGL, SRNC and oracle)",
        "seeds 0 to 6",
        "Clusters & classes.",
        "the one with the best Micro-F1 on labelled validation nodes of the target",
        "classifies other nodes, the target",
    ):
        assert told in page.text
    assert page.table("experiment", "seed") == {
        "cora-pgl": [("8", ""), ("no result yet: interrupted, or still running", "")]
    }
    assert "FloatingPointError: pgl, episode 2" in page.text and "Traceback" not in page.text
    assert page.table("experiment", "runs")["cora-srnc"] == [
        ("7 of 7", ""),
        ("clusters collapsed (seeds 0 to 6)", ""),
    ]
    assert "/somewhere/private" not in page.raw and str(results.parent) not in page.raw
    assert "graphgym-srnc report " + results.name in page.text


def test_numbers_are_those_of_the_runs_and_of_compare(page, results):
    means = page.table("method", "Cora", "CiteSeer")
    shown = compare.table(collect([results]).runs, ["micro_f1"], paper="open_set", intervals=True)
    for row, method in (("PGL+GCN", "pgl"), ("SRNC", "srnc"), ("GCN", "erm"), ("GCN (IID)", "iid")):
        for column, task in enumerate(("open_set/Cora", "open_set/CiteSeer")):
            scores = 100 * SCORES[method, task]
            low, high = shown.cells["micro_f1", row, task.rpartition("/")[2]].interval
            best = "best" if method == "srnc" else ""
            text = f"{scores.mean():.1f} ± {scores.std():.1f}"
            ends = f"{100 * low:.1f} to {100 * high:.1f}, n 7"
            assert means[row][column] == (f"{text} {ends}", best)
    tasks = "open_set/Cora", "open_set/CiteSeer"
    scores = [
        np.concatenate([SCORES[method, task] for task in tasks])
        for method in ("pgl", "srnc", "erm")
    ]
    ranks = scipy.stats.rankdata(-np.array(scores), axis=0).mean(1)
    assert [means[row][2][0] for row in ("PGL+GCN", "SRNC", "GCN", "GCN (IID)")] == [
        *(f"{rank:.1f}" for rank in ranks),
        "-",
    ]

    tests = [
        table
        for table in page.tables
        if [text for text, _ in table[0]] == ["method", "Cora", "CiteSeer", compare.POOLED]
    ][0]
    gaps = {
        method: SCORES[method, "open_set/Cora"] - SCORES["srnc", "open_set/Cora"]
        for method in ("pgl", "erm")
    }
    p = {
        method: scipy.stats.wilcoxon(np.round(gap, 9), method="exact").pvalue
        for method, gap in gaps.items()
    }
    cells = {row[0][0]: row[1] for row in tests[1:]}
    for row, method in (("PGL+GCN", "pgl"), ("GCN", "erm")):
        gap = gaps[method]
        holm = max(p[method], 2 * min(p.values()))
        assert cells[row] == (
            f"{100 * gap.mean():+.1f} p = {holm:.2g}, better in {(gap > 0).sum()} of 7",
            "worse" if holm <= 0.05 else "",
        )

    paper = page.table("method", "Cora, here", "paper", "difference")
    ours = 100 * SCORES["srnc", "open_set/Cora"].mean()
    assert [text for text, _ in paper["SRNC"][1:3]] == ["77.4 ± 4.0", f"{ours - 77.4:+.1f}"]
    swept = 100 * (SCORES["erm", "open_set/Cora"] - 0.1)
    assert (
        page.table("experiment", "method", "backbone")["cora-erm-10"][4][0]
        == f"{swept.mean():.1f} ± {swept.std():.1f}"
    )


def test_pictures_decode_and_have_their_size(page):
    from matplotlib.image import imread

    images = page.all("img")
    assert len(images) == 10
    for image in images:
        content = base64.b64decode(
            image["src"].removeprefix("data:image/png;base64,"), validate=True
        )
        assert imread(io.BytesIO(content)).shape[:2] == (int(image["height"]), int(image["width"]))


def test_text_of_strangers_stays_text(tmp_path, undrawn):
    name = "<img src=x onerror=alert(3)>{{8*8}}\"'"
    for method in ("erm", EVIL):
        keep(
            tmp_path,
            "x",
            [0.5, 0.6, 0.7],
            method,
            f"open_set/{EVIL}",
            warnings=(EVIL, "no \ud800 letter"[:2]),
            stopped=EVIL,
            info={EVIL: EVIL},
            platform=EVIL,
            labels={EVIL: {"source": 1, "target": 2}},
        )
        (tmp_path / "x").rename(tmp_path / (name + method[:3]))
    fail(tmp_path, name + "erm", 5, f"{EVIL}\n")
    text = rendered([tmp_path], title=EVIL, about={"erm": EVIL})
    found = Page(text)
    assert not found.all("script")
    assert all(tag["src"].startswith("data:") for tag in found.all("img"))
    assert not [key for _, attributes in found.tags for key in attributes if key.startswith("on")]
    shown = EVIL.replace("\u202e", "?")
    assert found.text.count(shown) > 15 and name in found.text
    assert "864199" not in re.sub(r'data:[^"]*|#\w+|\b[0-9a-f]{40}', "", text)
    assert "{{8*8}}" in found.text and "\u202e" not in text
    assert f"open_set/{shown}, seed 0" in [image["alt"] for image in found.all("img")]


def test_only_pictures_of_runs_are_taken(tmp_path, undrawn, monkeypatch):
    run = keep(tmp_path / "results", "one", [0.5]) / "0" / "figures"
    bomb = PNG[:16] + (html.SIDE + 1).to_bytes(4, "big") * 2 + PNG[24:]
    other = {
        "text-selected": b"<svg onload=alert(1)>",
        "cut-selected": PNG[:-4],
        "bomb-selected": bomb,
        "empty-selected": b"",
        "large-selected": PNG[:-12] + b"\0" * pictures.LARGEST + PNG[-12:],
    }
    for stem, content in {**other, "good-selected": PNG}.items():
        atomic.write_bytes(run / f"{stem}.png", content)
    secret = tmp_path / "secret.png"
    secret.write_bytes(PNG)
    (run / "linked-selected.png").symlink_to(secret)
    os.mkfifo(run / "pipe-selected.png")
    found = Page(rendered([tmp_path / "results"]))
    assert [image["alt"] for image in found.all("img")] == ["one, seed 0: good"]
    assert f"{len(other) + 2} more are not shown" in found.text
    shutil.rmtree(run)
    run.symlink_to(tmp_path, target_is_directory=True)
    secret.rename(tmp_path / "secret-selected.png")
    assert not Page(rendered([tmp_path / "results"])).all("img")


def test_a_page_has_room_for_so_many_pictures():
    album = pictures.Album()
    drawn = []

    def draw(size: int = 0) -> bytes:
        drawn.append(size)
        return PNG[:-12] + b"\0" * size + PNG[-12:]

    galleries = [album.gallery([(f"picture {number}", draw)] * 15) for number in range(4)]
    assert [(len(one.pictures), one.left_out) for one in galleries] == [
        (12, 3),
        (12, 3),
        (12, 3),
        (4, 11),
    ]
    assert len(drawn) == pictures.MOST
    album = pictures.Album()
    large = album.gallery([("large", lambda: draw(pictures.LARGEST - 1000))] * 5)
    assert len(large.pictures) == pictures.ROOM // (pictures.LARGEST - 1000)
    assert large.left_out == 5 - len(large.pictures)


def test_links_and_torn_records_are_passed_over(tmp_path, undrawn):
    keep(tmp_path / "results", "one", [0.5, 0.6])
    keep(tmp_path / "elsewhere", "two", [0.7])
    (tmp_path / "results" / "two").symlink_to(
        tmp_path / "elsewhere" / "two", target_is_directory=True
    )
    linked = keep(tmp_path / "results", "linked", [0.5]) / "0" / "result.json"
    linked.unlink()
    linked.symlink_to(tmp_path / "elsewhere" / "two" / "0" / "result.json")
    for change in (
        {"warnings": 5},
        {"seconds": "long"},
        {"history": [5]},
        {"test": {"micro_f1": [1]}},
        {"selected": 9},
        {"info": None},
        {"config": {"dataset": 3}},
        {"platform": "\ud800"},
    ):
        record = json.loads((tmp_path / "results" / "one" / "1" / "result.json").read_text())
        record |= change
        record["digest"] = store.digest(record["config"])
        (tmp_path / "results" / "one" / "1" / "result.json").write_text(
            json.dumps(store.sealed(record))
        )
        found = Page(rendered([tmp_path / "results"]))
        assert list(found.table("experiment", "method")) == ["one"]
        assert found.table("experiment", "seed")["one"] == [
            ("1", ""),
            ("its result.json is not what this program writes", ""),
        ], change
        keep(tmp_path / "again", "one", [0.5, 0.6])
        shutil.copy(
            tmp_path / "again" / "one" / "1" / "result.json", tmp_path / "results" / "one" / "1"
        )
        shutil.rmtree(tmp_path / "again")
    shutil.rmtree(tmp_path / "results" / "one" / "0")
    (tmp_path / "results" / "one" / "1" / "result.json").write_text("{")
    with pytest.raises(InputError, match="2 unreadable"):
        rendered([tmp_path / "results"])


def test_one_run_is_enough_and_folders_may_be_nested(tmp_path, undrawn):
    keep(tmp_path / "a", "same", [0.5])
    keep(tmp_path / "b", "same", [0.6], "pgl")
    alone = Page(rendered([tmp_path / "a" / "same"]))
    assert list(alone.table("experiment", "method")) == ["same"]
    assert "1 finished run of 1 experiment" in alone.text
    assert not {"tests", "curves"} & {attributes.get("id") for _, attributes in alone.tags}
    assert list(Page(rendered([tmp_path])).table("experiment", "method")) == ["a/same", "b/same"]
    assert list(Page(rendered([tmp_path / "a", tmp_path / "b"])).table("experiment", "method")) == [
        "a/same",
        "b/same",
    ]
    assert [
        one.name for one in collect([str(tmp_path / "a"), str(tmp_path / "b")]).experiments
    ] == ["a/same", "b/same"]
    twice = Page(rendered([tmp_path / "a", tmp_path / "a"]))
    assert list(twice.table("experiment", "method")) == ["a/same"]
    assert "They count once" in twice.text
    assert rendered([tmp_path]) == rendered([tmp_path])


def test_the_paper_stands_beside_results_that_it_has(results, tmp_path, undrawn):
    runs = collect([results]).runs
    assert pages.fitting(runs) == "open_set"
    assert "77.4 ± 4.0" not in Page(rendered([results], ["micro_f1"], paper="none")).text
    keep(tmp_path, "toy", [0.5, 0.6], task="synthetic/open_set")
    assert pages.fitting(collect([tmp_path]).runs) is None


def test_a_graph_made_in_memory_is_not_called_by_its_kind_of_shift(tmp_path):
    for task in ("synthetic/open_set", "open_set/Cora"):
        keep(tmp_path, task.replace("/", "-"), [0.5, 0.6], task=task)
    shown = compare.table(collect([tmp_path]).runs, ["micro_f1"])
    assert [*shown.columns] == ["Cora", "synthetic/open_set"]


def test_a_config_of_the_page_can_be_run_again(gym, tmp_path):
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.gym import run as runs

    cfg = load_config(
        "testing/srnc",
        ["out_dir", str(tmp_path), "dataset.name", "007", "synthetic.split_seed", "3"],
    )
    place = runs.experiment(cfg, "it's")
    one = Experiment(
        "grid/it's", tmp_path / "it's", {4: {"config": place.config}, 6: {"config": place.config}}
    )
    (tmp_path / "again.yaml").write_text(run_tables.yaml_of(one))
    assert (
        runs.experiment(load_config(str(tmp_path / "again.yaml")), "again").digest == place.digest
    )
    assert (
        run_tables.command(one)
        == """graphgym-srnc run --cfg 'it'"'"'s.yaml' --name 'it'"'"'s' --repeat 3 seed 4"""
    )


def test_the_command_writes_the_page(results, tmp_path):
    shutil.copytree(results / "cora-erm", tmp_path / "results" / "erm")
    command = [
        sys.executable,
        "-m",
        "graphgym_srnc",
        "report",
        "results",
        "--title",
        "Ours & theirs",
        "--metric",
        "micro_f1",
        "--figures",
        "drawn",
    ]
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    figures = sorted(path.name for path in (tmp_path / "drawn").glob("*.p*"))
    assert [name.rpartition(".")[2] for name in figures] == ["pdf", "png"] * (len(figures) // 2)
    assert figures[0].startswith("curves")
    assert re.fullmatch(
        rf"wrote results.html \(0\.\d MiB\)\nwrote {len(figures)} figures to drawn\n", done.stdout
    )
    found = Page((tmp_path / "results.html").read_text(encoding="utf-8"))
    assert "Ours & theirs" in found.text and "Plain GNN (ERM): cross-entropy" in found.text
    assert "Open-set shift: some" in found.text
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["erm"]
    # A page that the command made is made anew, but only by itself.
    done = subprocess.run(command[:-2], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0
    (tmp_path / "results.html").write_text("mine")
    done = subprocess.run(command[:-2], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 2 and (tmp_path / "results.html").read_text() == "mine"


@pytest.mark.parametrize(
    "words, told",
    [
        (["{empty}"], "DIR"),
        (["{empty}/nothing"], "DIR"),
        (["{file}"], "DIR"),
        (["{results}", "--out", "{empty}"], "--out"),
        (["{results}", "--out", "{file}/page.html"], "--out"),
        (["{results}", "--metric", "nonsense"], "--metric: got 'nonsense'"),
        (["{results}", "--paper", "nature"], "--paper: got 'nature'"),
        (["{results}", "--against", "nobody"], "--against: 'nobody' is not"),
    ],
)
def test_bad_input_is_one_line(words, told, results, tmp_path, capsys, undrawn):
    places = {"empty": tmp_path / "empty", "file": tmp_path / "file", "results": results}
    places["empty"].mkdir()
    places["file"].write_text("kept")
    before = sorted(results.rglob("*"))
    assert main(["report", *(word.format(**places) for word in words)]) == 2
    out, error = capsys.readouterr()
    assert not out and error.startswith(f"error: {told}") and error.count("\n") == 1
    assert sorted(results.rglob("*")) == before and places["file"].read_text() == "kept"
    assert not list(places["empty"].iterdir())


def test_the_place_is_looked_at_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "render", lambda *words: pytest.fail("too late"))
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path, tmp_path / "file" / "page.html"):
        assert main(["report", str(tmp_path), "--out", str(place)]) == 2


def test_words_of_the_command():
    args = build_parser().parse_args(
        [
            "report",
            "a",
            "b",
            "--metric",
            "micro_f1",
            "params",
            "--paper",
            "none",
            "--against",
            "SRNC",
        ]
    )
    assert (args.folders, args.metric, args.paper, args.against, args.title) == (
        ["a", "b"],
        ["micro_f1", "params"],
        "none",
        "SRNC",
        "",
    )
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args(["report"])
    assert stop.value.code == 2

"""The page of results is complete and right, loads nothing, and shows a stranger's text as text."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
from pathlib import Path

import browser
import numpy as np
import pytest
from stored import PNG, Page, store_failure, store_runs

from graphgym_srnc.cli.main import main
from graphgym_srnc.io import atomic
from graphgym_srnc.report import compare, tables
from graphgym_srnc.report import page as pages
from graphgym_srnc.report.frame import collect

RNG = np.random.default_rng(0)
TASKS = ("open_set/Cora", "open_set/CiteSeer")
SCORES = {
    (method, task): np.round(RNG.normal(centre, 0.02, 7), 3)
    for method, centre in {"erm": 0.70, "pgl": 0.75, "srnc": 0.82, "iid": 0.9}.items()
    for task in TASKS
}
EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>{{7*123457}}{% raw %}"'&amp;\u202e"""
PLACES = "short scores comparison every curves confusion embeddings problems again cite"
CAPTIONS = [f"Training curves on {graph}" for graph in ("CiteSeer", "Cora")]
CAPTIONS += [f"SRNC (cora-srnc, seed 0): {what}" for what in ("confusion", "cluster GNN")]


def rendered(folders: list[Path], *words, **options) -> str:
    return pages.render(collect(folders), *words, **options)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Four methods on two data sets, a swept setting, pictures, warnings, a run that failed and one
    that did not end."""
    root = tmp_path_factory.mktemp("results")
    common = {"train__max_episodes": -1, "open_set__num_unseen": 3}

    def add(name, scores, method, task, steps=100, **more):
        own = {"steps": steps, "smoothing": 0, "pseudo_labels": "cluster"}
        own = {f"{method}__{key}": value for key, value in own.items()}
        store_runs(root, name, scores, method, task, **common, **own, **more)

    for (method, task), scores in SCORES.items():
        warned = ("clusters collapsed",) if method == "srnc" else ()
        add(f"{task[9:]}-{method}".lower(), scores, method, task, warnings=warned)
    for steps in (10, 50):
        add(f"cora-erm-{steps}", SCORES["erm", TASKS[0]] - 1 / steps, "erm", TASKS[0], steps)
    for stem in ("confusion-selected", "another", "cluster_gnn-selected"):
        atomic.write_bytes(root / "cora-srnc" / "0" / "figures" / f"{stem}.png", PNG)
    store_failure(
        root, "cora-pgl", 7, "Traceback (last):\n  File here\nValueError: pgl, episode 2\n\n"
    )
    store_failure(root, "cora-pgl", 8, None)
    return root


@pytest.fixture(scope="module")
def page(results) -> Page:
    return Page(rendered([results], ["micro_f1", "macro_recall"], paper="open_set"))


def test_a_page_loads_nothing(page):
    assert re.match(r"\s*<!DOCTYPE html>", page.raw)
    policies = [tag["content"] for tag in page.all("meta") if "http-equiv" in tag]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]
    forbidden = {"script", "link", "iframe", "object", "embed", "base", "form", "svg", "source"}
    assert not forbidden & {tag for tag, _ in page.tags}
    for key, value in ((key, value) for _, found in page.tags for key, value in found.items()):
        assert not key.startswith("on") and key not in ("srcset", "action", "background", "poster")
        assert key != "src" or value.startswith("data:image/png;base64,")
        assert key != "href" or value.startswith("#")
    assert not re.search(r"https?:|url\(|@import|//[a-z]", re.sub(r'data:[^"]*', "", page.raw))
    assert len(page.raw) < 8_000_000


def test_a_page_has_every_part(page, results):
    from matplotlib.image import imread

    places = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = [link["href"][1:] for link in page.all("a")][1:]
    assert {*links} == places == {*PLACES.split()}
    assert links.index("comparison") < links.index("scores")  # results before definitions
    every = page.table("experiment", "task", "method", "runs")
    assert set(every) == {path.name for path in results.iterdir()}
    images = page.all("img")
    assert [image["alt"] for image in images] == CAPTIONS
    for image in images:
        content = base64.b64decode(image["src"].partition(",")[2], validate=True)
        assert imread(io.BytesIO(content)).shape[:2] == (int(image["height"]), int(image["width"]))
    told = "70 finished runs of 10 experiments", "seeds 0 to 6", "ValueError: pgl, episode 2"
    assert all(text in page.text for text in (*told, "target_val"))
    assert "sorted by data set and then by Micro-F1." in page.text
    assert "Crosses" not in page.text, "a figure with crosses says what they are"
    story = "no result yet: interrupted, or still running"
    assert page.table("experiment", "seed")["cora-pgl"] == [
        ("8", ""),
        ("unfinished", ""),
        (story, ""),
    ]
    warned = [("clusters collapsed", ""), ("seeds 0 to 6", "")]
    assert page.table("experiment", "warning")["cora-srnc"] == warned
    assert "Traceback" not in page.text
    assert "/somewhere/private" not in page.raw and str(results.parent) not in page.raw


@pytest.mark.slow
@pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium on this machine")
def test_nothing_is_wider_than_a_phone(page, tmp_path):
    html = page.raw.replace("'unsafe-inline'", "'unsafe-inline'; script-src 'self'", 1)
    script = """document.querySelectorAll("details").forEach(one => one.open = true);
    return [...document.querySelectorAll("body *")].filter(
        one => one.getBoundingClientRect().right > innerWidth).map(one => one.outerHTML);"""
    assert browser.look(html, script, tmp_path, 390) == []


def test_numbers_are_those_of_compare(page, results):
    asked = {"paper": "open_set", "intervals": True, "against": "SRNC"}
    shown = compare.table(collect([results]), ["micro_f1", "macro_recall"], **asked)
    for number, grid in enumerate(tables.grids(shown)):
        head, *rows = page.tables[number]
        assert [text for text, _ in head] == list(grid.head)
        texts = [[(cell.text, cell.mark) for cell in row[1:]] for row in grid.rows]
        assert [row[1:] for row in rows] == texts and rows[0][0][0] == grid.rows[0][0].text
    means = page.tables[0]
    scores = 100 * SCORES["srnc", TASKS[0]]
    (srnc,) = (row for row in means if row[0][0] == "SRNC")
    assert srnc[3:5] == [(f"{scores.mean():.1f} ± {scores.std():.1f}", "best"), ("77.4 ± 4.0", "")]
    swept = 100 * (SCORES["erm", TASKS[0]] - 0.1)
    every = page.table("experiment", "task", "method", "runs")
    assert every["cora-erm-10"][3][0] == f"{swept.mean():.1f} ± {swept.std():.1f}"


def test_text_of_strangers_stays_text(tmp_path, without_figures):
    name = "<img src=x onerror=alert(3)>{{8*8}}\"'"
    record = {"stopped": EVIL, "info": {EVIL: EVIL}, "platform": EVIL, "selection": EVIL}
    for method in ("erm", EVIL):
        scores = [0.5, 0.6, 0.7]
        task = f"open_set/{EVIL}"
        store_runs(tmp_path, "x", scores, method, task, warnings=(EVIL,), record=record)
        (tmp_path / "x").rename(tmp_path / (name + method[:3]))
    store_failure(tmp_path, name + "erm", 5, f"{EVIL}\n")
    text = rendered([tmp_path])
    found = Page(text)
    shown = EVIL.replace("\u202e", "?")
    assert not found.all("script")
    assert all(tag["src"].startswith("data:") for tag in found.all("img"))
    assert not [key for _, attributes in found.tags for key in attributes if key.startswith("on")]
    assert found.text.count(shown) > 15 and name in found.text
    assert "864199" not in re.sub(r'data:[^"]*|#\w+|\b[0-9a-f]{40}', "", text)
    assert "{{8*8}}" in found.text and "\u202e" not in text


def test_only_pictures_of_runs_are_taken(tmp_path, without_figures):
    forged = [
        b"<svg onload=alert(1)>",
        PNG[:-4],
        PNG[:16] + (pages.SIDE + 1).to_bytes(4, "big") * 2 + PNG[24:],
        b"",
        PNG[:-12] + b"\0" * pages.LARGEST + PNG[-12:],
    ]
    for k, content in enumerate(forged):
        run = store_runs(tmp_path / "forged", str(k), [0.5]) / "0" / "figures"
        atomic.write_bytes(run / "classifier-selected.png", content)
    assert not Page(rendered([tmp_path / "forged"])).all("img")

    run = store_runs(tmp_path / "results", "one", [0.5]) / "0" / "figures"
    run.mkdir()
    file = run / "classifier-selected.png"
    secret = tmp_path / "classifier-selected.png"
    secret.write_bytes(PNG)
    file.symlink_to(secret)
    os.mkfifo(run / "reliability.png")
    assert not Page(rendered([tmp_path / "results"])).all("img")
    atomic.write_bytes(run / "confusion-selected.png", PNG)
    found = Page(rendered([tmp_path / "results"]))
    assert [image["alt"] for image in found.all("img")] == ["GCN (one, seed 0): confusion"]
    assert "1 more are not shown" in found.text
    shutil.rmtree(run)
    run.symlink_to(tmp_path, target_is_directory=True)
    assert not Page(rendered([tmp_path / "results"])).all("img")


def test_the_command_writes_the_page(results, tmp_path, capsys, monkeypatch):
    shutil.copytree(results / "cora-erm", tmp_path / "results" / "erm")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(results / "cora-erm", tmp_path / "results" / "same")
    words = ["report", "results", "--metric", "micro_f1"]
    assert main(words) == 0
    out, error = capsys.readouterr()
    assert re.fullmatch(r"wrote results.html \(0\.\d MiB\)\n", out)
    assert error.count("\n") == 1 and error.startswith("note: skipped 7 runs of same with")
    found = Page((tmp_path / "results.html").read_text(encoding="utf-8"))
    assert "skipped 7 runs of same with" in found.text
    monkeypatch.setattr(pages, "render", lambda *words: "new")
    assert main([*words, "--out", "results.html"]) == 2
    assert main(words) == 0 and (tmp_path / "results.html").read_text() == "new"
    # It is no longer a page of this command.
    assert main(words) == 2 and "add --overwrite" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0

"""The map on the page of `discover`: its numbers, its bytes, and what a browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover import evidence, page
from graphgym_srnc.own.discover.clusters import Cluster, Discovery
from tests import browser

HOSTILE = "</script><script>document.title = 'run'</script><img src=x onerror=alert(1)> & 'quotes'"
WORDS = [["vase", "bowl", "cup"], ["art"]]
CLASSES = ["lamps", HOSTILE, "phones"]
NEEDS_BROWSER = pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium on this machine")


def generated(count: int) -> tuple[Discovery, np.ndarray]:
    """Five clusters of nodes, three of them of known classes; and a place for each node."""
    rng = np.random.default_rng(0)
    group = torch.from_numpy(rng.integers(0, 5, count))
    places = rng.normal(size=(5, 2))[group] * 20 + rng.normal(size=(count, 2)) * (4, 1)
    posterior = torch.full((count, 4), 0.1, dtype=torch.double)
    posterior.scatter_(1, group.clamp(max=3)[:, None], 0.7)
    figures = 0.7, 1.0, 0.1, 0.2, 0.5, ((0, 0.6), (1, 0.3), (2, 0.1))
    every = [
        Cluster(name, max(k - 2, 0), (group == k).nonzero().view(-1), 0.9 - k / 10, *figures)
        for k, name in enumerate([*CLASSES, "", "new art"])
    ]
    state = torch.from_numpy(places)
    return Discovery(state, posterior, group, torch.ones(count), every[:3], every[3:]), places


def made(
    count: int, monkeypatch: pytest.MonkeyPatch, most: int = 10**6
) -> tuple[dict[str, Any], Discovery, np.ndarray]:
    found, places = generated(count)
    monkeypatch.setattr(page, "layout", lambda discovery: places)
    monkeypatch.setattr(page, "MOST_NODES", most)
    texts = [f"a text of node {k}, {HOSTILE}" for k in range(count)]
    names = Names([f"P{k}" for k in range(count)], texts, None)
    return page.map_data(found, names, WORDS), found, places


def written(data: dict[str, Any], found: Discovery, file: Path) -> str:
    """The page with this map."""
    curves = evidence.Evidence(*[evidence.Curve("curve", [4, 5], [0.1, 0.2], [0, 0], 5)] * 2)
    images = dict.fromkeys(("map", "evidence"), page.encode(page.evidence_figure(curves, 5)))
    html = page.render(HOSTILE, [], found, curves, images, data, {"again": "a", "naming": "b"})
    file.write_text(html)
    return html


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<u2").astype(int)


def test_every_node_has_its_place_and_its_groups(monkeypatch):
    data, found, places = made(500, monkeypatch)
    x, y = unpacked(data["x"]), page.SIDE - unpacked(data["y"])
    unit = max(np.ptp(places, axis=0)) / page.SIDE
    back = np.stack([x, y], 1) * unit
    assert np.abs(back - back.mean(0) - places + places.mean(0)).max() < 2 * unit
    assert {x.min(), x.max()} == {0, page.SIDE} or {y.min(), y.max()} == {0, page.SIDE}
    assert abs(y.min() + y.max() - page.SIDE) <= 1 and abs(x.min() + x.max() - page.SIDE) <= 1

    by_cluster, by_class, by_chance = data["colourings"]
    assert unpacked(by_cluster["of"]).tolist() == found.cluster.tolist()
    assert unpacked(by_class["of"]).tolist() == found.label.tolist()
    assert by_cluster["names"][3:] == ["new 1: vase, bowl", "new 2: new art"]
    assert by_class["names"][3] == "unknown"
    known, new = by_cluster["colours"][:3], by_cluster["colours"][3:]
    assert {*known} == {page.GREY} and len({*new} - {page.GREY}) == 2
    chance = unpacked(data["p"]) / page.SIDE
    assert chance == pytest.approx(np.where(found.label == 3, 0.7, 0.1), abs=1e-4)
    assert unpacked(by_chance["of"]).tolist() == np.where(found.label == 3, 3, 0).tolist()
    assert data["ids"][7] == "P7" and data["texts"][7].startswith("a text of node 7, </script>")
    assert [text for _, _, text in data["marks"]] == ["1: vase, bowl", "2: new art"]
    assert data["newness"] == [0.9, 0.8, 0.7, 0.6, 0.5]


def test_a_map_of_one_place_and_without_names(monkeypatch):
    found, places = generated(300)
    monkeypatch.setattr(page, "layout", lambda discovery: np.zeros_like(places))
    monkeypatch.setattr(page, "MOST_NODES", 50)
    data = page.map_data(found, Names(), WORDS)
    shown = page.embedding.sample(300, 50).tolist()
    assert {*unpacked(data["x"])} == {page.SIDE // 2} and data["texts"] is None
    assert max(shown) >= 50 and data["ids"] == [f"node {k}" for k in shown]


def test_a_page_of_a_large_graph_is_bounded_and_says_so(monkeypatch, tmp_path):
    data, found, _ = made(3000, monkeypatch, most=1000)
    assert len(unpacked(data["x"])) == len(data["ids"]) == len(data["texts"]) == 1000
    nodes = [int(name[1:]) for name in data["ids"]]
    assert unpacked(data["colourings"][0]["of"]).tolist() == found.cluster[nodes].tolist()
    assert all(len(text) <= page.LONGEST_TEXT for text in data["texts"])
    html = written(data, found, tmp_path / "page.html")
    assert "A random sample of 1,000 of 3,000 nodes is shown." in html
    small = written(made(90, monkeypatch)[0], generated(90)[0], tmp_path / "small.html")
    assert "A random sample" not in small


def test_a_page_runs_its_own_script_and_nothing_else(monkeypatch, tmp_path):
    data, found, _ = made(200, monkeypatch)
    html = written(data, found, tmp_path / "page.html")
    opened = re.findall(r"<script[^>]*>", html)
    assert opened == ['<script type="application/json" id="map-data">', "<script>"]
    policy = re.search(r'Content-Security-Policy"\s+content="([^"]*)"', html)[1]
    script = html.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    inside = html.partition('id="map-data">')[2].partition("</script>")[0]
    assert json.loads(inside) == data and "<" not in inside
    assert "<img src=x" not in html and "http" not in html.replace("http-equiv", "")
    assert not re.search(r"innerHTML|eval\(|import |fetch\(|url\(|Function\(", script)


@NEEDS_BROWSER
@pytest.mark.slow
def test_a_browser_draws_moves_and_finds(monkeypatch, tmp_path):
    data, found, _ = made(2000, monkeypatch)
    written(data, found, tmp_path / "page.html")
    legend = "[...document.querySelectorAll('#map-legend button')]"
    tip = "document.getElementById('map-tip').innerText"
    with browser.tab() as tab:
        tab.go(tmp_path / "page.html")
        tab.until("document.getElementById('map-canvas')?.dataset.drawn == '2000'")
        shown = tab.value(f"{legend}.map(b => b.innerText).join('|')")
        assert shown.startswith("known: lamps (") and "new 2: new art (" in shown
        assert HOSTILE in shown  # as text
        tab.value("document.getElementById('map-canvas').scrollIntoView()")
        left, top, width, height = tab.value(
            "(b => [b.left, b.top, b.width, b.height])"
            "(document.getElementById('map-canvas').getBoundingClientRect())"
        )
        x, y = left + width / 2, top + height / 2
        coloured = (
            "(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
            ".reduce((sum, v) => sum + (v > 0), 0))(document.getElementById('map-canvas'))"
        )
        assert (before := tab.value(coloured)) > 2000

        # The first hit is told, in text, and drawn in the middle; other hits are one key away.
        tab.value(
            "(f => { f.value = 'OF NODE 77,'; f.dispatchEvent(new Event('input'));"
            " })(document.getElementById('map-find'))"
        )
        assert tab.value("document.getElementById('map-found').innerText") == "1 found"
        tab.value("document.getElementById('map-next').click()")
        tab.until(f"{tip}.startsWith('P77\\na text of node 77, </script>')")
        told = tab.value(tip)
        group = data["colourings"][0]["names"][found.cluster[77]]
        assert f"cluster: {group[:7]}" in told and "P(unknown): 0." in told and "newness: " in told

        tab.value(
            "document.getElementById('map-whole').click();"
            "document.getElementById('map-canvas').focus()"
        )
        tab.press("Escape")
        tab.until("document.getElementById('map-tip').hidden")
        tab.press("+")
        tab.press("ArrowLeft")
        tab.until(f"{tip} != ''")
        near = tab.value(tip)
        tab.mouse("mouseWheel", x + 50, y, deltaX=0, deltaY=-900)
        for kind, right in (("mousePressed", 0), ("mouseMoved", 200), ("mouseReleased", 200)):
            tab.mouse(kind, x + right, y, button="left", buttons=1, clickCount=1)
        tab.press("ArrowRight")
        tab.until(f"{tip} != {json.dumps(near)}")

        whole = "document.getElementById('map-canvas').toDataURL()"
        moved = tab.value(f"{whole}.length")
        tab.value("document.getElementById('map-whole').click()")
        tab.until(f"{whole}.length != {moved}")
        before_pinch = tab.value(f"{whole}.length")
        for kind, far in (("touchStart", 20), ("touchMove", 60), ("touchEnd", None)):
            touches = [{"x": x + side * far, "y": y, "id": side + 1} for side in (-1, 1) if far]
            tab.call("Input.dispatchTouchEvent", type=kind, touchPoints=touches)
        tab.until(f"{whole}.length != {before_pinch}")

        tab.value(f"document.getElementById('map-whole').click(); {legend}.at(-1).click()")
        assert tab.value(f"{legend}.filter(b => b.ariaPressed == 'false').length") == 5
        tab.until(f"{coloured} < {before / 3}")  # but for the words on clusters
        tab.value(
            "(s => { s.selectedIndex = 1; s.dispatchEvent(new Event('change'));"
            " })(document.getElementById('map-by'))"
        )
        tab.until(f"{legend}.some(b => b.innerText.startsWith('unknown ('))")
        assert tab.value("document.title") == HOSTILE and not tab.errors

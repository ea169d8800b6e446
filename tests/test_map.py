"""The map on the page of `discover`: its numbers, its bytes, and what a browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover import page
from graphgym_srnc.own.discover.clusters import Cluster, Discovery
from graphgym_srnc.own.discover.table import Row
from tests import browser

HOSTILE = "</script><script>document.title = 'run'</script><img src=x onerror=alert(1)> & 'quotes'"
WORDS = [["vase", "bowl", "cup"], ["art"]]
CLASSES = ["lamps", HOSTILE, "phones"]
NEEDS_BROWSER = pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium on this machine")


def generated(count: int, new: int = 2) -> Discovery:
    """Three clusters of known classes and ``new`` others; states are places on the map."""
    rng = np.random.default_rng(0)
    group = torch.from_numpy(rng.integers(0, 3 + new, count))
    places = rng.normal(size=(3 + new, 2))[group] * 20 + rng.normal(size=(count, 2)) * (4, 1)
    posterior = torch.full((count, 4), 0.1, dtype=torch.double)
    posterior.scatter_(1, group.clamp(max=3)[:, None], 0.7)
    figures = 1.0, 1.0, 0.1, 0.2, 0.5, ((0, 0.6), (1, 0.3), (2, 0.1))
    every = [
        Cluster(name, max(k - 2, 0), (group == k).nonzero().view(-1), 0, 0.9 - k / 10, *figures)
        for k, name in enumerate([*CLASSES, *[""] * (new - 1), "new art"])
    ]
    state = torch.from_numpy(places)
    return Discovery(state, posterior, group, torch.ones(count), every[:3], every[3:])


@pytest.fixture(autouse=True)
def places(monkeypatch):
    monkeypatch.setattr(page, "layout", lambda discovery: discovery.state.numpy())


def made(count: int) -> tuple[dict[str, Any], Discovery, Names]:
    """The data of a map of so many nodes, and what it is made of."""
    found = generated(count)
    texts = [f"a text of node {k}, {HOSTILE}" for k in range(count)]
    names = Names([f"P{k}" for k in range(count)], texts, ["a word"])
    return page.map_data(found, names, WORDS), found, names


def written(found: Discovery, names: Names) -> str:
    """The page with this map."""
    rows = [Row(cluster, "lamps 0.60", ["vase", "bowl"], ["P1"], []) for cluster in found.every]
    commands = {"again": "a", "naming": "b"}
    return page.render(HOSTILE, rows, found, names, {4: 0.1, 5: 0.2}, commands)


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<u2").astype(int)


def test_every_node_has_its_place_and_its_groups():
    data, found, _ = made(500)
    places = found.state.numpy()
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
    sizes = found.cluster.bincount()
    marks = sorted([(3, "1: vase, bowl"), (4, "2: new art")], key=lambda mark: -sizes[mark[0]])
    assert [(group, text) for _, _, group, text in data["marks"]] == marks


def test_a_large_graph_is_sampled_and_a_map_may_be_one_place(monkeypatch):
    monkeypatch.setattr(page, "MOST_NODES", 1000)
    data, found, names = made(3000)
    assert len(unpacked(data["x"])) == len(data["ids"]) == len(data["texts"]) == 1000
    nodes = [int(name[1:]) for name in data["ids"]]
    assert unpacked(data["colourings"][0]["of"]).tolist() == found.cluster[nodes].tolist()
    assert all(len(text) <= page.LONGEST_TEXT for text in data["texts"])
    html = written(found, names)
    assert re.search(r"A random sample of 1,000 of 3,000\s+nodes is shown", html)

    found = replace(generated(300), state=torch.zeros(300, 2))
    assert "A random sample" not in written(found, Names())
    monkeypatch.setattr(page, "MOST_NODES", 50)
    data = page.map_data(found, Names(), WORDS)
    shown = page.embedding.sample(300, 50).tolist()
    assert {*unpacked(data["x"])} == {page.SIDE // 2} and data["texts"] is None
    assert max(shown) >= 50 and data["ids"] == [f"node {k}" for k in shown]


def test_a_page_runs_its_own_script_and_nothing_else():
    data, found, names = made(200)
    html = written(found, names)
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


SCRIPT = """
const at = name => document.getElementById("map-" + name), canvas = at("canvas");
const legend = () => [...document.querySelectorAll("#map-legend button")];
const picture = () => canvas.toDataURL();
const set = (field, values, event) => {
  Object.assign(at(field), values);
  at(field).dispatchEvent(new Event(event));
};
const press = key => canvas.dispatchEvent(new KeyboardEvent("keydown", {key}));
const pixels = colour => {
  const wanted = [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < all.length; i += 4) {
    const far = wanted.reduce((sum, v, k) => sum + Math.abs(all[i + k] - v), 0);
    if (all[i + 3] && (far < 12 || !colour)) count++;
  }
  return count;
};
const place = x => {
  const box = canvas.getBoundingClientRect();
  return {clientX: box.x + x, clientY: box.y + box.height / 2, cancelable: true};
};
const point = (kind, x, pointerId = 1) => canvas.dispatchEvent(
  new PointerEvent("pointer" + kind, {...place(x), pointerId, pointerType: "mouse"}));
canvas.setPointerCapture = () => {};  // made-up pointers cannot be captured
let labels = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  labels.push([text, x, y, this.measureText(text).width]);
  draw.call(this, text, x, y);
};
"""
"""What tests need to use a map and to see it."""


@NEEDS_BROWSER
@pytest.mark.slow
def test_a_browser_shows_the_map(tmp_path):
    data, found, names = made(2000)
    seen = browser.look(
        written(found, names),
        f"""{SCRIPT}
        await pause();
        const out = {{
          drawn: canvas.dataset.drawn,
          legend: legend().map(b => b.innerText).join("|"),
          colours: {json.dumps(data["colourings"][0]["colours"])}.map(pixels),
          title: document.title,
        }};
        set("find", {{value: "OF NODE 77,"}}, "input");  // the match is described as text
        at("next").click();
        await pause();
        out.found = at("found").innerText;
        out.told = at("tip").innerText;

        set("find", {{value: ""}}, "input");
        press("Escape");
        await pause();
        out.hidden = at("tip").hidden;
        out.changed = [];  // each of these must change the picture
        const turn = {{...place(600), deltaY: -200}}, changes = {{
          whole: () => at("whole").click(),
          key: () => {{ press("+"); press("ArrowLeft"); }},
          wheel: () => canvas.dispatchEvent(new WheelEvent("wheel", turn)),
          drag: () => {{ point("down", 300); point("move", 420); point("up", 420); }},
          again: () => at("whole").click(),
          pinch: () => {{
            point("down", 300, 1); point("down", 340, 2); point("move", 500, 2);
            point("up", 300, 1); point("up", 500, 2);
          }},
        }};
        for (const [name, change] of Object.entries(changes)) {{
          const before = picture();
          change();
          await pause();
          if (picture() !== before) out.changed.push(name);
          if (name === "key") out.near = at("tip").innerText;
        }}
        at("whole").click();
        legend().at(-1).click();
        await pause();
        out.left = pixels("");  // no dot and no label
        out.struck = legend().filter(b => b.ariaPressed === "false").length;
        set("by", {{selectedIndex: 1}}, "change");
        await pause();
        out.classes = legend().map(b => b.innerText).join("|");
        return out;
        """,
        tmp_path,
    )
    assert seen["drawn"] == "2000" and min(seen["colours"]) > 1000
    assert seen["legend"].startswith("new 1: vase, bowl (") and "|known: lamps (" in seen["legend"]
    assert HOSTILE in seen["legend"] and seen["title"] == HOSTILE  # as text
    assert seen["found"] == "1 found" and seen["hidden"]
    assert seen["told"].startswith("P77\na text of node 77, </script>")
    group = data["colourings"][0]["names"][found.cluster[77]]
    assert f"cluster: {group[:7]}" in seen["told"] and "newness" not in seen["told"]
    assert seen["changed"] == ["whole", "key", "wheel", "drag", "again", "pinch"] and seen["near"]
    assert (seen["left"], seen["struck"]) == (0, 5) and "unknown (" in seen["classes"]


@NEEDS_BROWSER
@pytest.mark.slow
def test_a_browser_shows_labels_apart_and_a_straight_table(tmp_path):
    found = generated(900, new=12).named({number: f"a class {number}" for number in range(1, 13)})
    labels, table, is_narrow = browser.look(
        written(found, Names()),
        f"""{SCRIPT}
        await pause();
        labels = [];
        at("whole").click();
        await pause();
        const box = cell => [cell.innerText, cell.getBoundingClientRect().x, cell.offsetWidth];
        const lines = [...document.querySelectorAll("#new tr")];
        const table = lines.map(line => [...line.children].map(box));
        return [labels, table, document.documentElement.scrollWidth <= innerWidth];
        """,
        tmp_path,
        width=500,
    )
    largest = max(found.new, key=lambda cluster: len(cluster.nodes))
    assert labels[0][0] == f"{largest.number}: {largest.name}" and 3 < len(labels) <= 12
    for (_, x, y, wide), (_, x2, y2, wide2) in combinations(labels, 2):
        assert abs(x - x2) >= (wide + wide2) / 2 or abs(y - y2) >= 16, labels

    head, *lines = table
    assert [line[0][0] for line in lines] == [f"{k}, a class {k}" for k in range(1, 13)]
    assert [line[2][0] for line in lines] == [str(len(new.nodes)) for new in found.new]
    assert all(line[4][0].strip() == "1.00" for line in lines)
    # On a phone, the cells of a cluster are below each other, without a line of heads.
    assert is_narrow and all(wide == 0 for *_, wide in head)
    assert all(wide > 300 and x + wide <= 500 for line in lines for _, x, wide in line)

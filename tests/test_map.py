"""The map on the page of `discover`: its numbers, its bytes, and what a browser makes of it."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import shlex
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from matplotlib.colors import to_rgb
from torch_geometric.data import Data

from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover import feedback, page, table
from graphgym_srnc.own.discover.analysis import Analysis
from graphgym_srnc.own.discover.candidates import Evidence, Seeds
from graphgym_srnc.own.discover.clusters import Cluster, Discovery, Part
from graphgym_srnc.own.discover.number import Fit
from graphgym_srnc.own.discover.table import Row
from graphgym_srnc.own.discover.words import shown_node
from tests import browser

HOSTILE = "</script><script>document.title = 'run'</script><img src=x onerror=alert(1)> & 'quotes'"
START = "graphgym-srnc discover 'my run' --new 2"
LABELS_OUT = " --name '2=new art' --labels-out NEXT"
REST = "unknown, in no new cluster"
CLASSES = ["lamps", HOSTILE, "phones"]
NEEDS_BROWSER = pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium on this machine")


def generated(count: int, new: int = 2) -> Discovery:
    """Three clusters of known classes, ``new`` others, and ten nodes that are in none.

    States are places on the map.
    """
    rng = np.random.default_rng(0)
    group = torch.from_numpy(rng.integers(0, 3 + new, count))
    group[-10:] = 3 + new
    places = rng.normal(size=(4 + new, 2))[group] * 20 + rng.normal(size=(count, 2)) * (4, 1)
    posterior = torch.full((count, 4), 0.1, dtype=torch.double)
    posterior.scatter_(1, group.clamp(max=3)[:, None], 0.7)
    figures = 1.0, 0.2, 0.1, 0.8, 3.0, 0, 0.6
    names = [*CLASSES, *[""] * (new - 1), "new art", ""]
    every = []
    for k, name in enumerate(names):
        number = k - 2 if 3 <= k < 3 + new else 0
        nodes = (group == k).nonzero().view(-1)
        every.append(Cluster(name, number, nodes, 0, 0.9 - k / 10, *figures))
    halves = every[3].nodes[::2], every[3].nodes[1::2]
    every[3] = replace(every[3], parts=[Part(f"1{x}", own, 0) for x, own in zip("ab", halves)])
    seeds = Seeds((group > 2).nonzero().view(-1), posterior[:, -1])
    typical = torch.linspace(0, 1, count)
    state = torch.from_numpy(places)
    return Discovery(
        state, posterior, seeds, group, typical, every[:3], every[3 : 3 + new], every[-1]
    )


@pytest.fixture(autouse=True)
def places(monkeypatch):
    monkeypatch.setattr(page, "layout", lambda discovery: discovery.state.numpy())


def analysed(found: Discovery, names: Names) -> Analysis:
    """An analysis of such clusters: a ring of nodes, each tenth with a label, one word in half."""
    count = len(found.cluster)
    ring = torch.stack([torch.arange(count), torch.arange(1, count + 1) % count])
    x = (found.cluster == 3).float()[:, None]
    graph = Data(x=x, edge_index=torch.cat([ring, ring.flip(0)], 1))
    rows = []
    for cluster in found.every:
        words = ["vase", "bowl"] if cluster.number else ["lamp"]
        shown = [shown_node(names, node) for node in cluster.nodes[:3].tolist()]
        rows.append(Row(cluster, "lamps 0.60", words, shown[:2], shown[2:], []))
    label = torch.where(torch.arange(count) % 10 == 0, 0, -1)
    fits = {1: Fit(0.1, 1, 9), 2: Fit(0.2, 1, 9)}
    return Analysis(graph, found, rows, names, fits, Evidence(True, 0.001), label)


def made(count: int) -> tuple[dict[str, Any], Discovery, Names]:
    """The data of a map of so many nodes, and what it is made of."""
    found = generated(count)
    texts = [f"Title {k}\na text of node {k}, {HOSTILE}" for k in range(count)]
    urls = ["" if k % 2 else f"https://a.org/{k}" for k in range(count)]
    names = Names([f"P{k}" for k in range(count)], texts, ["a word"], urls)
    return page.map_data(analysed(found, names)), found, names


def written(found: Discovery, names: Names) -> str:
    """The page with this map."""
    return page.render(HOSTILE, analysed(found, names), {"again": "a", "start": START}, {}, [])


def unpacked(text: str, kind: str = "<u2") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=kind).astype(int)


def test_every_node_has_its_place_and_its_groups(monkeypatch):
    monkeypatch.setattr(page, "GAP", 0)
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
    assert by_cluster["names"][3:] == ["new 1: vase, bowl", "new 2: new art", REST]
    assert by_class["names"][3] == "unknown"
    # Sizes of known classes are those of the predictions, and all unknown nodes are in the rest.
    assert by_cluster["sizes"][:3] == by_class["sizes"][:3]
    assert sum(by_cluster["sizes"][3:]) == by_class["sizes"][3] and by_cluster["sizes"][5] == 10
    assert by_cluster["order"] == [3, 4, 5, 0, 1, 2] and by_cluster["pale"] == [5, 0, 1, 2]
    chance = unpacked(data["p"]) / page.SIDE
    assert chance == pytest.approx(np.where(found.label == 3, 0.7, 0.1), abs=1e-4)
    assert unpacked(by_chance["of"]).tolist() == np.where(found.label == 3, 3, 0).tolist()
    assert data["ids"][7] == "P7" and data["titles"][7] == "Title 7"
    assert data["texts"][7].startswith("a text of node 7, </script>")
    sizes = found.cluster.bincount()
    marks = [(3, "1: vase, bowl", True), (4, "2: new art", True)]
    marks.sort(key=lambda mark: -sizes[mark[0]])
    shown = [tuple(mark[2:5]) for mark in data["marks"]]
    assert shown[:2] == marks and {text for _, text, new in shown[2:] if not new} >= {"lamps"}


def placed(discovery: Discovery, places: np.ndarray) -> tuple[np.ndarray, list[list[Any]]]:
    """Places of nodes on the map, from 0 to 1 and y upwards, and labels, of nodes so placed."""
    found = replace(discovery, state=torch.from_numpy(places))
    data = page.map_data(analysed(found, Names()))
    x, y = unpacked(data["x"]), page.SIDE - unpacked(data["y"])
    return np.stack([x, y], 1) / page.SIDE, data["marks"]


def test_nodes_in_one_place_are_drawn_side_by_side():
    found = generated(500)
    grid = np.stack(np.meshgrid(np.arange(20), np.arange(20)), 2).reshape(-1, 2) / 19
    places = np.concatenate([grid, np.tile([1.5, 0.5], (100, 1))])
    shown, _ = placed(found, places)
    others, pile = shown[:400], shown[400:]
    assert np.abs((others - others.min(0)) / np.ptp(others, 0) - grid).max() < 1e-3, "they stay"
    gaps = np.linalg.norm(pile[:, None] - pile, axis=2) + np.eye(100)
    assert np.median(gaps.min(1)) > 0.5 * page.GAP / np.sqrt(500)
    assert np.ptp(pile, 0).max() < 0.15
    assert (placed(found, places)[0] == shown).all(), "the same in each call"


def scattered() -> Discovery:
    """Known classes and a new one in one place each, 60 lamps in another, and a mixed place."""
    found = generated(1000, new=1)
    group = found.cluster.numpy()
    middles = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 5]])[group]
    for of, moved in enumerate([[60, 20, 4], [0, 40, 4], [0, 35, 4]]):
        parts = np.split(np.flatnonzero(group == of), np.cumsum(moved))
        for part, place in zip(parts, [(20, 0), (20, 20), (0, 20)]):
            middles[part] = place
    places = middles + np.random.default_rng(0).normal(size=(1000, 2)) * 0.1
    return replace(found, state=torch.from_numpy(places))


def test_each_dense_place_has_a_label():
    """A second one of a class, and one without a class of most nodes; not one of few nodes."""
    found = scattered()
    _, marks = placed(found, found.state.numpy())
    texts = {mark[2]: mark[3] for mark in marks[:4]}
    assert len(texts) == 4 and texts[3] == "1: new art"
    mixed, lamps = marks[4:]
    assert lamps[2:] == [0, "lamps", False, 60]
    assert mixed[2:] == [1, f"mixed: {texts[1]}, phones", False, 95]
    assert np.abs(np.array([lamps[:2], mixed[:2]]) / page.SIDE - [[1, 1], [1, 0]]).max() < 0.05


@NEEDS_BROWSER
@pytest.mark.slow
def test_labels_of_further_places_are_drawn_beside_them(tmp_path):
    seen, size = browser.look(
        written(scattered(), Names()),
        f"""{SCRIPT}
        await pause();
        labels = [];
        at("whole").click();
        await pause();
        return [labels, [canvas.clientWidth, canvas.clientHeight]];
        """,
        tmp_path,
    )
    lamps = [(x, y) for text, x, y, _ in seen if text == "lamps"]
    mixed = [(x, y) for text, x, y, _ in seen if text.startswith("mixed: ")]
    assert len(lamps) == 2 and len(mixed) == 1
    wide, high = size
    for (x, y), down in zip([lamps[1], mixed[0]], (0.95, 0.05)):
        place = wide / 2 + 0.45 * high, down * high
        assert x < wide and np.hypot(x - place[0], y - place[1]) < 180


def test_a_card_has_what_the_model_and_the_graph_say():
    data, found, _ = made(500)
    best = unpacked(data["best"]).reshape(500, data["choices"])
    assert best[:, 0].tolist() == found.label.tolist()
    share = unpacked(data["share"]).reshape(best.shape) / page.SIDE
    assert share[:, 0] == pytest.approx(np.full(500, 0.7), abs=1e-4)
    assert unpacked(data["given"]).tolist() == [int(node % 10 == 0) for node in range(500)]
    starts, ends = unpacked(data["starts"], "<u4"), unpacked(data["ends"], "<u4")
    for node in (0, 1, 9, 250, 499):
        near = ends[starts[node] : starts[node + 1]].tolist()
        assert {*near} == {(node - 1) % 500, (node + 1) % 500}
        assert [other % 10 == 0 for other in near] == sorted(
            (other % 10 == 0 for other in near), reverse=True
        ), "neighbours with a label come first"
    assert unpacked(data["degree"], "<u4").tolist() == [2] * 500
    words = unpacked(data["wordsOf"], "<u4").reshape(500, -1)
    assert (
        data["words"] == ["a word"] and words[:, 0].tolist() == (found.cluster == 3).int().tolist()
    )
    assert data["urls"][2] == "https://a.org/2" and data["urls"][3] == ""


def test_a_map_shows_dates():
    """By fifths as colours, and on cards; clusters have their quartiles."""
    found = generated(500)
    dates = [f"{day:%Y-%m-%d}" for day in pandas.date_range("1990-01-01", periods=500)]
    dates[7] = ""
    data = page.map_data(analysed(found, Names(dates=dates)))
    assert data["dates"] == dates
    colours = next(one for one in data["colourings"] if one["by"] == "date")
    assert colours["names"][0] == "1990-01-01 to 1990-04-11" and colours["names"][-1] == "unknown"
    assert colours["sizes"] == [100, 100, 100, 100, 99, 1]
    assert unpacked(colours["of"])[[0, 7, 499]].tolist() == [0, 5, 4]
    of_same_day = page.map_data(analysed(found, Names(dates=["1990-01-01"] * 500)))
    assert of_same_day["colourings"][-1]["names"] == ["1990-01-01 to 1990-01-01", "unknown"]
    row = table.rows(found, np.zeros((500, 1)), Names(dates=dates))[0]
    own = sorted(filter(None, (dates[node] for node in row.cluster.nodes.tolist())))
    assert row.dates == f"{own[len(own) // 4]} to {own[3 * len(own) // 4]}"


def test_colours_of_many_classes_differ():
    """Pale ones too: by at least 20 of 441 in the space of red, green and blue."""
    for colours in (page._colours(11), page._colours(16), page._hues(16, page.PALE)):
        points = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in colours]
        least = min(np.linalg.norm(np.subtract(*pair)) for pair in combinations(points, 2))
        assert least > 20, colours
    pale = [int(colour[k : k + 2], 16) for colour in page._hues(9, page.PALE) for k in (1, 3, 5)]
    assert min(pale) > 130


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
    data = page.map_data(analysed(found, Names()))
    shown = page.embedding.sample(300, 50).tolist()
    assert {*unpacked(data["x"])} == {page.SIDE // 2} and {*data["texts"]} == {""}
    assert unpacked(data["nodes"], "<u4").tolist() == shown
    assert unpacked(data["ends"], "<u4").max(initial=0) < 50
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
    assert "<img src=x" not in html
    addresses = re.findall(r"https?://[^\s\"]*", html)
    assert addresses and all(address.startswith("https://a.org/") for address in addresses)
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
    assert seen["drawn"] == "2000" and min(seen["colours"][:5]) > 1000
    assert seen["legend"].startswith("new 1: vase, bowl (") and "|known: lamps (" in seen["legend"]
    assert HOSTILE in seen["legend"] and seen["title"] == HOSTILE  # as text
    assert seen["found"] == "1 found" and seen["hidden"]
    assert seen["told"].startswith("P77: Title 77\na text of node 77, </script>")
    group = data["colourings"][0]["names"][found.cluster[77]]
    assert f"cluster: {group[:7]}" in seen["told"] and "newness" not in seen["told"]
    assert seen["changed"] == ["whole", "key", "wheel", "drag", "again", "pinch"] and seen["near"]
    assert (seen["left"], seen["struck"]) == (0, 6) and "unknown (" in seen["classes"]


@NEEDS_BROWSER
@pytest.mark.slow
def test_the_legend_is_right(tmp_path):
    """Each group has the count of its nodes and the colour of their dots, as drawn."""
    data, found, names = made(1200)
    counts, drawn = browser.look(
        written(found, names),
        f"""{SCRIPT}
        const hex = element => "#" + getComputedStyle(element).backgroundColor.match(/\\d+/g)
          .slice(0, 3).map(v => Number(v).toString(16).padStart(2, "0")).join("");
        const groups = () => legend().slice(0, -2);
        const colours = groups().map(b => hex(b.querySelector("i"))), drawn = [];
        const counts = groups().map(b => b.innerText);
        for (const k of counts.keys()) {{
          legend().at(-1).click();  // none
          await pause();
          groups()[k].click();
          await pause();
          drawn.push(colours.map(pixels));
        }}
        return [counts, drawn];
        """,
        tmp_path,
    )
    called = ["new 1: vase, bowl", "new 2: new art", REST, *(f"known: {name}" for name in CLASSES)]
    predicted = found.label.bincount(minlength=4).tolist()
    sizes = [len(found.new[0].nodes), len(found.new[1].nodes), 10, *predicted[:3]]
    wanted = [f"{name} ({size:,})" for name, size in zip(called, sizes)]
    assert [re.sub(r"\s+", " ", text) for text in counts] == [
        re.sub(r"\s+", " ", w) for w in wanted
    ]
    # Alone on the map, a group has pixels of its own colour in the legend, and of no other one.
    for k, row in enumerate(drawn):
        assert row[k] > 100 and max(row[:k] + row[k + 1 :]) < 0.05 * row[k], (k, row)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours by WCAG 2.2, from 1 to 21."""
    levels = []
    for colour in (one, other):
        parts = np.array(to_rgb(colour) if colour[0] == "#" else re.findall(r"\d+", colour)[:3])
        parts = parts.astype(float) / (1 if colour[0] == "#" else 255)
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        levels.append(float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05)
    return max(levels) / min(levels)


@NEEDS_BROWSER
@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 500])
def test_the_map_is_readable(tmp_path, width):
    """Labels lie inside, apart from each other, with a halo and in a colour that can be read."""
    names = {str(number): f"a class {number}" for number in range(1, 7)}
    found = generated(1500, new=6).named(names)
    seen = browser.look(
        written(found, Names()),
        f"""{SCRIPT}
        await pause();
        labels = [];
        const inks = [], write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (...text) {{
          inks.push(this.fillStyle);
          write.apply(this, text);
        }};
        const halos = [], halo = CanvasRenderingContext2D.prototype.strokeText;
        CanvasRenderingContext2D.prototype.strokeText = function (...text) {{
          halos.push([text[0], this.strokeStyle, parseFloat(this.font.split(" ")[1])]);
          halo.apply(this, text);
        }};
        at("whole").click();
        await pause();
        const box = canvas.getBoundingClientRect();
        const buttons = legend().map(b => b.scrollWidth <= b.clientWidth + 1);
        const paper = getComputedStyle(canvas).getPropertyValue("--paper").trim();
        const shown = legend().slice(0, 6).map(b => getComputedStyle(b.querySelector("i")));
        return {{labels, halos, inks, paper, dots: shown.map(style => style.backgroundColor),
          size: [canvas.clientWidth, canvas.clientHeight], buttons,
          inked: pixels(""), all: canvas.width * canvas.height,
          fits: document.documentElement.scrollWidth <= innerWidth, box: box.width}};
        """,
        tmp_path,
        width=width,
    )
    wide, high = seen["size"]
    shown = {text for text, *_ in seen["labels"]}
    assert {f"{number}: a class {number}" for number in range(1, 7)} <= shown
    # Each has a halo in the colour of the paper, and the largest clusters have the largest names.
    assert [text for text, *_ in seen["halos"]] == [text for text, *_ in seen["labels"]]
    assert {colour for _, colour, _ in seen["halos"]} == {seen["paper"]}
    fonts = {text: size for text, _, size in seen["halos"]}
    sizes = {f"{new.number}: {new.name}": len(new.nodes) for new in found.new}
    order = sorted(sizes, key=sizes.__getitem__)
    assert [fonts[text] for text in order] == sorted(fonts[text] for text in order)
    assert fonts[order[0]] >= 12 and fonts["phones"] < fonts[order[0]]
    for text, x, y, length in seen["labels"]:
        assert x - length / 2 >= 0 and x + length / 2 <= wide and 10 < y <= high, text
    for (a, x, y, long), (b, x2, y2, long2) in combinations(seen["labels"], 2):
        assert abs(x - x2) >= (long + long2) / 2 or abs(y - y2) >= 12, (a, b)
    # WCAG 2.2 wants 4.5 for text. New clusters are the first six buttons.
    assert len(seen["inks"]) == len(seen["labels"])
    assert min(contrast(ink, seen["paper"]) for ink in seen["inks"]) >= 4.5
    assert min(contrast(dot, seen["paper"]) for dot in seen["dots"]) >= 2
    assert 0.01 < seen["inked"] / seen["all"] < 0.5, "neither empty nor a blot"
    assert seen["fits"] and all(seen["buttons"]) and wide >= 0.65 * min(width, 1280)


@NEEDS_BROWSER
@pytest.mark.slow
def test_cards_and_the_list_of_nodes(tmp_path):
    data, found, names = made(300)
    names.texts[299] = "long " * 30  # without a title
    seen = browser.look(
        written(found, names),
        f"""{SCRIPT}
        await pause();
        const card = document.getElementById("card"), list = document.querySelector("#list tbody");
        const wanted = card.hidden;
        document.querySelector("[data-node]").click();
        await pause();
        const first = [card.innerText, card.querySelector("a") ? card.querySelector("a").href : ""];
        const marked = document.getElementById("map-tip").innerText;
        card.querySelector("dd button").click();  // a neighbour
        const second = card.querySelector("h3").innerText;
        const cells = () => [...list.rows].map(row => [...row.cells].map(cell => cell.innerText));
        document.getElementById("list-cluster").value = "all";
        document.getElementById("list-cluster").dispatchEvent(new Event("change"));
        document.querySelectorAll("#list th button")[4].click();
        const typical = cells();
        document.querySelectorAll("#list th button")[4].click();
        const least = cells();
        let saved = "";
        URL.createObjectURL = blob => {{ saved = blob; return "#"; }};
        URL.revokeObjectURL = () => {{}};
        document.getElementById("list-csv").click();
        return {{wanted, marked, first, second, typical, least, csv: await saved.text(),
          count: document.getElementById("list-count").innerText}};
        """,
        tmp_path,
    )
    node = found.new[0].nodes[0].item()
    assert seen["wanted"] and f"Title {node}" in seen["first"][0]
    assert seen["marked"].startswith(f"P{node}: Title {node}"), "its dot has the ring and the tip"
    assert (
        "prediction\nunknown 0.70" in seen["first"][0]
        and "labels of neighbours" in seen["first"][0]
    )
    assert seen["first"][1] == ("" if node % 2 else f"https://a.org/{node}")
    assert seen["second"] in [f"P{n}: Title {n}" for n in ((node - 1) % 300, (node + 1) % 300)]
    assert seen["typical"][0][0] == f"P299: {11 * 'long '}long…"
    assert seen["least"][0][0] == "P0: Title 0"
    lines = list(csv.DictReader(seen["csv"].removeprefix("\ufeff").splitlines()))
    assert len(lines) == 300 and seen["count"] == "50 of 300 nodes"
    assert [line["id"] for line in lines][:2] == ["P0", "P1"] and "cluster" in lines[0]
    assert lines[1]["node"] == "1" and lines[1]["title"] == "Title 1"


@NEEDS_BROWSER
@pytest.mark.slow
def test_a_browser_shows_the_list_of_clusters(tmp_path):
    names = {str(number): f"a class {number}" for number in range(1, 13)}
    found = generated(900, new=12).named(names)
    items, is_narrow = browser.look(
        written(found, Names()),
        f"""{SCRIPT}
        await pause();
        const items = [...document.querySelectorAll("#groups li")].map(item => {{
          const box = item.getBoundingClientRect(), field = item.querySelector("input");
          return [item.innerText, field.value, box.x, box.width, field.offsetWidth];
        }});
        return [items, document.documentElement.scrollWidth <= innerWidth];
        """,
        tmp_path,
        width=500,
    )
    assert len(items) == 12 and is_narrow
    for k, (text, name, x, wide, field) in enumerate(items, 1):
        nodes = len(found.new[k - 1].nodes)
        assert text.startswith(f"{k}, a class {k}\n") and f"{nodes} node" in text
        assert "P(unknown) 1.00" in text and name == f"a class {k}"
        assert wide > 300 and 300 < field <= wide and x + wide <= 500


@NEEDS_BROWSER
@pytest.mark.slow
def test_names_and_labels_that_a_reader_types(tmp_path):
    """The command has them as a shell and the program read them, and the table of labels too."""
    _, found, names = made(300)
    names = names._replace(ids=[f"{k:04d}" for k in range(300)])  # their zeros stay
    seen = browser.look(
        written(found, names),
        f"""{SCRIPT}
        const $ = name => document.getElementById(name), command = () => $("command").textContent;
        const type = (field, text) => {{
          field.value = text;
          field.dispatchEvent(new Event("change"));
        }};
        await pause();
        const field = document.querySelector("#groups [data-name='1']");
        const out = {{at_first: command()}};
        out.fields = document.querySelectorAll("[data-name='1']").length;
        out.classes = [...document.querySelectorAll("#classes option")].map(one => one.value);
        labels = [];
        type(field, "it's *new*");
        await pause();
        out.named = command();
        out.labels = labels.map(([text]) => text);
        out.same = [...document.querySelectorAll("[data-name='1']")].map(one => one.value);
        out.refused = ["unknown", "-12", "a\u200bb"].map(text => {{
          type(field, text);
          return [field.validity.valid, command() === out.named];
        }});
        type(field, "");
        out.without = command();
        type(field, "b");

        document.querySelector("[data-node]").click();
        type(document.querySelector("#card dd input"), "=lamps, old");
        out.labelled = [$("named").innerText, command()];
        let saved = "";
        URL.createObjectURL = blob => {{ saved = blob; return "#"; }};
        URL.revokeObjectURL = () => {{}};
        $("labels-csv").click();
        out.csv = await saved.text();
        document.querySelector("#card > button").click();
        out.back = [$("card").hidden, $("groups").hidden];
        return out;
        """,
        tmp_path,
    )
    assert seen["at_first"] == START + LABELS_OUT
    assert seen["fields"] == 2 and seen["classes"][:3] == CLASSES
    words = shlex.split(seen["named"])
    assert words[-6:] == ["--name", "2=new art", "--name", "1=it's *new*", "--labels-out", "NEXT"]
    assert feedback.parse_names([words[-5], words[-3]]) == {"2": "new art", "1": "it's *new*"}
    assert "1: it's *new*" in seen["labels"] and seen["same"] == ["it's *new*"] * 2
    assert seen["refused"] == [[False, True]] * 3 and seen["without"] == seen["at_first"]
    node = found.new[0].nodes[0].item()
    counts, command = seen["labelled"]
    assert counts == "2 clusters named, 1 node labelled"
    assert command.endswith(" --labels labels.csv --labels-out NEXT")
    (tmp_path / "labels.csv").write_text(seen["csv"], encoding="utf-8")
    labels, _ = feedback.read_labels(tmp_path / "labels.csv", names.ids, 300)
    assert labels == {node: "=lamps, old"} and f",{node:04d},Title {node}," in seen["csv"]
    assert seen["back"] == [True, False]


@NEEDS_BROWSER
@pytest.mark.slow
def test_all_nodes_found_get_one_name(tmp_path):
    """Those with a label keep it, and the names can be undone, the last ones first."""
    _, found, names = made(300)
    hostile = json.dumps(HOSTILE).replace("<", "\\u003c")
    seen = browser.look(
        written(found, names),
        f"""{SCRIPT}
        const $ = name => document.getElementById(name), command = () => $("command").textContent;
        const offer = $("label-found"), field = offer.querySelector("input");
        const name = offer.querySelector("button"), undo = $("label-undo");
        const told = () => [at("found").innerText, offer.hidden || name.innerText,
          undo.hidden || undo.innerText, $("named").innerText];
        const find = text => set("find", {{value: text}}, "input");
        const type = text => {{ field.value = text; name.click(); }};
        let saved = "";
        URL.createObjectURL = blob => {{ saved = blob; return "#"; }};
        URL.revokeObjectURL = () => {{}};
        const csv = async () => {{ $("labels-csv").click(); return await saved.text(); }};
        await pause();
        const out = {{}}, asked = () => {{
          const event = new Event("beforeunload", {{cancelable: true}});
          return !dispatchEvent(event);
        }};
        out.at_first = [...told(), command()];
        find("title 1");
        out.found = told();
        out.list = field.getAttribute("list");
        out.refused = ["unknown", "7", " "].map(text => {{ type(text); return told(); }});
        out.asks = [asked()];
        type({hostile});
        out.asks.push(asked());
        out.named = [...told(), command(), document.title];
        out.csv = await csv();
        find("title 29");
        field.value = "lamps";
        field.dispatchEvent(new KeyboardEvent("keydown", {{key: "Enter"}}));
        out.second = told();
        undo.click();
        out.undone = told();
        find("title 1");
        undo.click();
        out.undone_both = [...told(), command()];
        find("title 10,");  // none
        out.none = told();
        return out;
        """,
        tmp_path,
    )
    before = "1 cluster named"
    assert seen["at_first"] == ["", True, True, before, START + LABELS_OUT]
    numbers = [k for k in range(300) if f"Title {k}".startswith("Title 1")]
    free = [k for k in numbers if k % 10]
    offered = [f"{len(numbers)} found, 11 with a label", f"name all {len(free)} found", True]
    assert len(numbers) == 111 and seen["found"] == [*offered, before]
    assert seen["list"] == "classes" and seen["refused"] == [seen["found"]] * 3
    assert seen["asks"] == [False, True]
    named = f"undo: {len(free)} nodes named {HOSTILE}"
    counts = f"{before}, {len(free)} nodes labelled"
    assert seen["named"][:4] == ["111 found, 111 with a label", True, named, counts]
    command, title = seen["named"][4:]
    assert command.endswith(" --labels labels.csv --labels-out NEXT") and title == HOSTILE
    (tmp_path / "labels.csv").write_text(seen["csv"], encoding="utf-8")
    labels, _ = feedback.read_labels(tmp_path / "labels.csv", names.ids, 300)
    assert labels == dict.fromkeys(free, HOSTILE)
    second = f"{before}, {len(free) + 10} nodes labelled"
    assert seen["second"][2:] == ["undo: 10 nodes named lamps", second]
    assert seen["undone"][2:] == [named, counts]
    assert seen["undone_both"] == [*seen["found"], seen["at_first"][-1]]
    assert seen["none"] == ["0 found", True, True, before]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 11, 13])
def test_known_classes_side_by_side_have_different_hues(count):
    turn = 2 * np.pi * np.arange(count) / max(count, 1)
    places = page.SIDE / 2 * (1 + np.stack([np.cos(turn), np.sin(turn)], 1))
    colours = page._around(places, np.arange(count), count)
    assert sorted(colours) == sorted(page._hues(count, page.PALE))
    hues = [page._hues(count, page.PALE).index(colour) / count for colour in colours]
    around = abs(np.diff(hues))
    assert (np.minimum(around, 1 - around) > 0.24).all()

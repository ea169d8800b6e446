"""Whatever a file holds, reading it ends in an ``InputError`` or in a value: damaged and hostile files of every kind that is read.

``GRAPHGYM_SRNC_FUZZ=10000`` tries so many inputs in all; each is drawn from its number, so that a failure can be looked at again.
"""
from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from conftest import make_graph, make_task
from test_methods import make
from test_report_html import PNG, keep
from torch_geometric.data import Data, HeteroData

from graphgym_srnc import cache, shifts, store
from graphgym_srnc.cli.main import main
from graphgym_srnc.errors import InputError
from graphgym_srnc.settings import config_root, plain_yaml

pytestmark = pytest.mark.filterwarnings("ignore")

COUNT = int(os.environ.get("GRAPHGYM_SRNC_FUZZ") or 300)
"""Inputs in all."""

ROOM = 8 * 2 ** 30
"""Bytes of address space that reading a small file may take."""

FIGURES: Counter[str] = Counter()

NASTY = [part if isinstance(part, bytes) else part.encode() for part in (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", "\u2028", "\u202e", "\u0661", "²", "é" * 300, "\x1b[31m", "\x85", "\r", "\n", "\n\n", "\t",
    " ", ",", ";", ":", ": ", "- ", "#", "'", '"', "%", "|", "=", "[", "]", "{", "}", "[]", "{}", "[" * 3000, "{a: " * 3000, '{"a":' * 3000,
    "&a [*a, *a]", "*a", "&a x", "<<: {a: 1}", "!!python/object/apply:os.system [true]", "? ", "---\n", "true", "null", "~", "nan", "-nan",
    "inf", "-1", "-0", "0", "1", "2.5", "1e999", "1e-400", "9" * 19, "9" * 30, "9" * 5000, "0x10", "1_000", "007", "True", "../../x", "/etc/passwd",
    "=1+1", "<script>", "\\input{x}", "unknown", "train", "test", "node", "x" * 200_000, "__class__", "__proto__", "a.b.c")]
"""What tends to go wrong somewhere."""

VALUES: list[Any] = [None, True, -1, 0, 10 ** 30, 2 ** 31, -2 ** 63, 0.5, float("nan"), float("inf"), "", "x", "\x1b[31m<b>=1|", "é" * 300, [], [1], ["a"],
                     [[1, 2], [3]], {}, {"a": 1}, {"x": {}}, [None] * 3]
"""What may stand in the place of a value of another kind."""


def mutated(draw: random.Random, content: bytes) -> bytes:
    """A text or any other bytes with one to four places changed."""
    for _ in range(draw.randint(1, 4)):
        a, b = sorted(draw.randint(0, len(content)) for _ in range(2))
        b = min(b, a + draw.choice((1, 4, 20, 10 ** 9)))
        words = content.split()
        way = draw.randrange(7)
        if way == 0 and content:
            place = draw.randrange(len(content))
            content = content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1:]
        elif way == 1:
            content = content[:a] + content[b:]
        elif way == 2:
            content = content[:b] + content[a:b] + content[b:]
        elif way == 3 and words:
            content = content.replace(draw.choice(words), draw.choice([*words, *NASTY]), 1)
        elif way == 4:
            content = content[:a]
        else:
            content = content[:a] + draw.choice(NASTY) + content[a if way == 5 else b:]
    return content


def other(draw: random.Random, tree: Any) -> Any:
    """A tree of plain values with one of them changed, left out or put in another place."""
    if not isinstance(tree, (dict, list)) or not tree or draw.random() < 0.05:
        return draw.choice(VALUES)
    tree = tree.copy()
    key = draw.choice(list(tree)) if isinstance(tree, dict) else draw.randrange(len(tree))
    if draw.random() < 0.1:
        del tree[key]
    else:
        tree[key] = other(draw, tree[key])
    return tree


def other_tensor(draw: random.Random, value: torch.Tensor) -> Any:
    """A tensor of another type, shape, layout or content."""
    ways = [lambda: value[:-1], lambda: value[None], lambda: value.reshape(-1), lambda: value.T, lambda: value.double(), lambda: value.half(),
            lambda: value.to(torch.int8), lambda: value.bool(), lambda: value.to(torch.complex64), lambda: value * 0, lambda: -value,
            lambda: value + 2 ** 40, lambda: value.float() * float("nan"), lambda: value.float().fill_(float("inf")), lambda: value.new_zeros(0),
            lambda: value.new_zeros(()), lambda: value.to_sparse(), lambda: value.float().to_sparse_csr(), lambda: value[:1].expand(10 ** 8, *value.shape[1:]),
            lambda: torch.zeros(1).expand(10 ** 6, 10 ** 6), lambda: value.to(torch.bfloat16), lambda: value.to("meta"), lambda: value.tolist(),
            lambda: value.numpy().tolist()[0], lambda: draw.choice(VALUES), lambda: torch.empty(3, 0), lambda: value.float() / 3,
            lambda: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8)]
    return draw.choice(ways)()


def packed(draw: random.Random, content: bytes) -> bytes:
    """A zip file of which one member is changed, or the file itself."""
    if draw.random() < 0.3:
        return mutated(draw, content)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = draw.choice([*names, *[name for name in names if name.endswith("data.pkl")] * 3])
        for name in names:
            member = old.read(name)
            if name != chosen:
                new.writestr(name, member)
            elif draw.random() < 0.9:
                new.writestr(draw.choice([name] * 9 + ["../../" + name]), mutated(draw, member[:100]) + member[100:])
    return out.getvalue()


def saved(value: Any) -> bytes:
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def arrays(**fields: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **fields)
    return out.getvalue()


def text(rows: Any) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


@pytest.fixture(scope="module", autouse=True)
def bounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Address space that a bomb would burst, and the figures at the end."""
    try:
        import resource
        before = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    except (ImportError, OSError):
        before = None
    yield
    if before is not None:
        resource.setrlimit(resource.RLIMIT_AS, before)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\nfuzzed inputs: {FIGURES.total()}, of which {FIGURES['refused']} refused in one line and {FIGURES['read']} read; "
              f"{FIGURES['other']} ended in another error")


def cpu_graph() -> dict[str, torch.Tensor]:
    graph, node = make_graph(30, 3, 4), torch.arange(30)
    return {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y, "train_mask": node < 12, "val_mask": (node >= 12) & (node < 20),
            "test_mask": node >= 20}


# ---- one kind of input each: from a generator, a file or words, and what reads them ----

def config(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.gym import load_config
    files = [path.read_bytes() for path in sorted(config_root().rglob("*.yaml"))]

    def one(draw: random.Random) -> None:
        (folder / "a.yaml").write_bytes(mutated(draw, draw.choice(files)))
        load_config(folder / "a.yaml")
    return one


def words(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.store import flatten
    keys = sorted(flatten(load_config()))

    def one(draw: random.Random) -> None:
        value = draw.choice(NASTY).decode("utf-8", "surrogateescape")
        load_config(None, [draw.choice(keys + [value]), draw.choice([value, "[" + value + "]", value + "1"])])
    return one


def grid_file(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.grid import space
    files = [path.read_bytes() for path in sorted(config_root().rglob("*.txt"))]

    def one(draw: random.Random) -> None:
        (folder / "a.txt").write_bytes(mutated(draw, draw.choice(files)))
        spaces = space.read(folder / "a.txt")
        for setting in space.sample(spaces, 3)[:3] + (space.settings(spaces)[:3]):
            store.check_name(space.name("base", setting))
    return one


def graph_pt(folder: Path) -> Callable[[random.Random], None]:
    fields = cpu_graph()
    whole = saved(Data(**fields)), saved(fields)

    def one(draw: random.Random) -> None:
        if draw.random() < 0.4:
            content = packed(draw, draw.choice(whole))
        else:
            key = draw.choice(list(fields))
            with_other = fields | {key: other_tensor(draw, fields[key])}
            try:
                content = saved(draw.choice((dict, lambda fields: Data(**fields)))(with_other))
            except Exception:
                content = packed(draw, whole[0])
        (folder / "a.pt").write_bytes(content)
        shifts.find("file")(path=str(folder / "a.pt"), open_set=draw.random() < 0.5)
        shifts.find("cross_graph")(source=str(folder / "a.pt"), target=str(folder / "a.pt"))
    return one


def graph_npz(folder: Path) -> Callable[[random.Random], None]:
    fields = {name: value.numpy() for name, value in cpu_graph().items()}
    adjacency, x = sp.csr_matrix((np.ones(fields["edge_index"].shape[1]), fields["edge_index"]), (30, 30)), sp.csr_matrix(fields["x"])
    benchmark = {f"{part}_{name}": getattr(matrix, name) for part, matrix in (("adj", adjacency), ("attr", x))
                 for name in ("data", "indices", "indptr", "shape")} | {"labels": fields["y"]}

    def one(draw: random.Random) -> None:
        plain = dict(draw.choice((fields, benchmark)))
        if draw.random() < 0.6:
            key = draw.choice(list(plain))
            try:
                plain[key] = np.asarray(other_tensor(draw, torch.as_tensor(plain[key])))
            except Exception:
                plain[key] = plain[key].astype(draw.choice(("U5", "S5", "datetime64[s]", "O", "c8", "u1", [("a", "i4")])), casting="unsafe") \
                    if draw.random() < 0.8 else np.array(draw.choice(VALUES), dtype=object)
            if plain[key].nbytes > 10 ** 6:
                plain[key] = plain[key].ravel()[:3]
            content = arrays(**plain)
        else:
            content = packed(draw, arrays(**plain))
        (folder / "a.npz").write_bytes(content)
        shifts.find("file")(path=str(folder / "a.npz"), split=draw.choice(("auto", "random")), num_val=3, labels_per_class=2)
    return one


def graph_folder(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.shifts import _names
    fields, names = cpu_graph(), ("art", "law", "math")
    sparse, dense = io.BytesIO(), io.BytesIO()
    sp.save_npz(sparse, sp.csr_matrix(fields["x"].numpy()))
    np.save(dense, fields["x"].numpy())
    files = {"edges.csv": text([("from", "to"), *fields["edge_index"].T.tolist()]),
             "labels.csv": text([("node", "label"), *((node, names[label]) for node, label in enumerate(fields["y"].tolist()))]),
             "split.csv": text([("node", "part"), *((node, "train" if node < 12 else "val" if node < 20 else "test") for node in range(30))]),
             "nodes.csv": text([("id", "text"), *((f"n{node}", f"text {node}") for node in range(30))]), "words.txt": b"a\nb\nc\nd\n"}
    features = {"features.csv": text(fields["x"].tolist()), "features.npz": sparse.getvalue(), "features.npy": dense.getvalue()}
    edges = {"edges.txt": files["edges.csv"].replace(b",", b" "), "edges.csv": files["edges.csv"], "edges.tsv": files["edges.csv"].replace(b",", b"\t")}

    def one(draw: random.Random) -> None:
        for file in folder.iterdir():
            file.unlink()
        links, x = draw.choice(list(edges)), draw.choice(list(features))
        written = {**files, x: features[x]}
        del written["edges.csv"]
        written[links] = edges[links]
        key = draw.choice(list(written))
        written[key] = (packed if key.endswith("npz") else mutated)(draw, written[key])
        for name, content in written.items():
            (folder / name).write_bytes(content)
        try:
            shifts.find("file")(path=str(folder), mapped=draw.random() < 0.5)
        finally:
            _names.of_folder(folder, 30, 4)
    return one


def table(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.tables import flat, folder as folders
    rows = [("key", "title", "size", "land", "class", "split")]
    rows += [(f"k{node}", f"word{node % 3} word{node % 4} words", node / 3, "abc"[node % 3], "xy"[node % 2], "train" if node < 9 else "test") for node in range(12)]
    nodes, links, array = text(rows), text([(f"k{node}", f"k{(node * 5 + 1) % 12}") for node in range(12)]), io.BytesIO()
    np.save(array, np.eye(12))
    (folder / "nodes.csv").write_bytes(nodes)
    (folder / "links.csv").write_bytes(links)
    options = {"label": "class", "split": "split", "text": ["title"], "numbers": ["size"], "categories": ["land"]}
    made, _ = flat.graph(folder / "nodes.csv", folder / "links.csv", **options)
    recipe = json.loads(json.dumps(made.recipe))

    def one(draw: random.Random) -> None:
        files = {"nodes.csv": nodes, "links.csv": links, "own.npy": array.getvalue()}
        key = draw.choice([*files, "recipe.json"])
        if key in files:
            files[key] = mutated(draw, files[key])
        for name, content in files.items():
            (folder / name).write_bytes(content)
        given = {name: folder / name for name in files}
        if key == "recipe.json":
            (folder / key).write_bytes(mutated(draw, json.dumps(recipe).encode()) if draw.random() < 0.3 else json.dumps(other(draw, recipe)).encode())
            made, _ = flat.graph(given["nodes.csv"], given["links.csv"], label="class", like=folder)
        else:
            made, _ = flat.graph(given["nodes.csv"], given["links.csv"], embeddings=given["own.npy"], spectral=draw.choice((0, 2)), **options)
        folders.summary(made)
        folders.write(made, folder / "out", True)
    return one


def hetero(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.tables import hetero as typed
    fields = {"x": torch.rand(6, 3), "y": torch.arange(6) % 2, "train_mask": torch.arange(6) < 3}

    def data(fields: dict, links: Any) -> HeteroData:
        graph = HeteroData()
        graph["paper"].update(fields)
        graph["author"].num_nodes = 4
        graph["paper", "by", "author"].edge_index = links
        return graph

    links = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]])

    def one(draw: random.Random) -> None:
        key, content = draw.choice([*fields, "links", ""]), b""
        if key:
            try:
                content = saved(data(fields | ({} if key == "links" else {key: other_tensor(draw, fields[key])}),
                                     other_tensor(draw, links) if key == "links" else links))
            except Exception:
                key = ""
        (folder / "a.pt").write_bytes(content if key else packed(draw, saved(data(fields, links))))
        typed.graph(typed.read_pt(folder / "a.pt"), "paper", ["paper-author-paper"])
    return one


def dblp(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.tables import dblp as reader
    from graphgym_srnc.tables import hetero as typed
    files = {"paper.txt": b"1\tGraph words here\n2\tWords of graphs\n3\tOther graph words\n", "author.txt": b"7\tA\n8\tB\n",
             "paper_author.txt": b"1\t7\n2\t7\n3\t8\n", "author_label.txt": b"7\t0\tA\n8\t1\tB\n"}

    def one(draw: random.Random) -> None:
        key = draw.choice(list(files))
        for name, content in files.items():
            (folder / name).write_bytes(mutated(draw, content) if name == key else content)
        found, _ = reader.read_folder(folder)
        typed.graph(found, "author", ["author-paper-author"], bag="author-paper")
    return one


def network(folder: Path) -> Callable[[random.Random], None]:
    from test_shifts_cross import network as small

    from graphgym_srnc.shifts import _citation
    fields, out = small("dblpv7"), io.BytesIO()
    scipy.io.savemat(out, fields)
    _citation.NODES["dblpv7"], _citation.WORDS, wide = 60, 12, (_citation.NODES["dblpv7"], _citation.WORDS)
    del wide

    def one(draw: random.Random) -> None:
        (folder / "dblpv7.mat").write_bytes(mutated(draw, out.getvalue()))
        _citation._read.__wrapped__(folder / "dblpv7.mat")
    return one


def result(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.report import compare, html, overview, render, table as tables
    html._galleries, overview.figures_of, html._rank_drawings = lambda *args: {}, lambda *args: iter(()), lambda *args: iter(())
    keep(folder, "one", [0.5, 0.6], labels={"a": {"source": 1, "target": 2}})
    keep(folder, "two", [0.7, 0.6], "srnc", warnings=["w"])
    run = folder / "one" / "0"
    record = json.loads((run / "result.json").read_text())
    place = store.Experiment(folder, "one", record["config"])

    def one(draw: random.Random) -> None:
        if draw.random() < 0.3:
            content = mutated(draw, json.dumps(record).encode())
        else:
            changed = other(draw, record)
            if isinstance(changed, dict) and isinstance(changed.get("config"), dict):
                changed["digest"] = store.digest(changed["config"])
            content = json.dumps(changed).encode()
        (run / "result.json").write_bytes(content)
        (run / "error.txt").write_bytes(mutated(draw, b"Traceback (most recent call last):\n  here\nValueError: x\n"))
        store.write_bytes(run / "figures" / "confusion-selected.png", mutated(draw, PNG), durable=False)
        for act in (lambda: place.plan([0, 1, 2], resume=True), lambda: place.aggregate(), lambda: store.read_results(folder / "one"),
                    lambda: [render.FORMATS[form](compare.table(compare.collect([folder]).runs)) for form in render.FORMATS],
                    lambda: tables.markdown([tables.summarise("one", place.aggregate(), folder)]),
                    lambda: html.render([folder], ["micro_f1"], title=draw.choice(NASTY).decode("utf-8", "surrogateescape"))):
            try:
                act()
            except InputError:
                FIGURES["told"] += 1
    return one


def model(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.gym import load_config, runs
    from graphgym_srnc.gym import model as models
    cfg = load_config(None, ["synthetic.num_nodes", "90", "synthetic.num_val", "20", "synthetic.num_test", "30", "synthetic.labels_per_class", "3",
                             "gnn.dim_inner", "4", "train.mode", "erm", "erm.steps", "1", "erm.rounds", "0", "out_dir", str(folder)])
    runs.run(cfg, 0, runs.experiment(cfg, "one"), extras=runs.Extras(False))
    run = folder / "one" / "0"
    whole, record = (run / "model.pt").read_bytes(), (run / "result.json").read_bytes()
    content = torch.load(io.BytesIO(whole), weights_only=True)
    about, told = json.loads(content["about"]), json.loads(record)

    def one(draw: random.Random) -> None:
        name = draw.choice(("about", "state", "zip", "record"))
        state, said = dict(content["state"]), about
        if name == "state":
            key = draw.choice(list(state))
            try:
                state[key] = other_tensor(draw, state[key])
            except Exception:
                del state[key]
        elif name == "about":
            said = other(draw, about)
        changed = told
        if name == "record":
            changed = told | {"config": other(draw, told["config"])}
            if isinstance(changed["config"], dict):
                changed["digest"] = store.digest(changed["config"])
                said = about | {"digest": changed["digest"]}
        (run / "result.json").write_text(json.dumps(changed))
        (run / "model.pt").write_bytes(packed(draw, whole) if name == "zip" else saved({"about": json.dumps(said), "state": state}))
        models.load(run).predict(make_graph(20, 3, told["config"]["synthetic"]["num_features"]))
    return one


def estimator(folder: Path) -> Callable[[random.Random], None]:
    import graphgym_srnc
    graphgym_srnc.ERM(hidden=4, steps=1, rounds=0).fit(make_task()).save(folder / "whole.pt")
    content = torch.load(folder / "whole.pt", weights_only=True)

    def one(draw: random.Random) -> None:
        said = content | {"about": json.dumps(other(draw, json.loads(content["about"])))}
        (folder / "a.pt").write_bytes(packed(draw, (folder / "whole.pt").read_bytes()) if draw.random() < 0.4 else saved(said))
        graphgym_srnc.load(folder / "a.pt").predict_proba(make_graph())
    return one


def checkpoint(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc import trainer
    from graphgym_srnc.gym.checkpoint import Checkpoint
    place = store.Experiment(folder, "one", {"seed": 0})
    place.begin(0)

    def new() -> Checkpoint:
        return Checkpoint(place, 0, "split", 1.0, lambda line: None, True, lambda: {"train": [], "maps": {}, "seconds": 0.0})

    trainer.fit(make("erm", rounds=1), make_task(), checkpoint=new())
    whole = new().path.read_bytes()
    content = torch.load(io.BytesIO(whole), weights_only=True)

    def one(draw: random.Random) -> None:
        changed = content | {"key": json.dumps(other(draw, json.loads(content["key"])))}
        new().path.write_bytes(packed(draw, whole) if draw.random() < 0.7 else saved(changed))
        new().read()
    return one


def cached(folder: Path) -> Callable[[random.Random], None]:
    kept = cache.Cache(folder, 10 ** 6)
    kept.memoise("a", lambda: {"x": torch.ones(3)}, (1,))
    file = next(folder.glob("*.pt"))
    whole = file.read_bytes()

    def one(draw: random.Random) -> None:
        file.write_bytes(packed(draw, whole))
        assert kept.memoise("a", lambda: {"x": torch.ones(3)}, (1,))["x"].tolist() == [1, 1, 1]
    return one


def yaml(folder: Path) -> Callable[[random.Random], None]:
    def one(draw: random.Random) -> None:
        content = mutated(draw, b"a: {b: [1, 2], c: x}\nd: 'e'\n").decode("utf-8", "replace")
        try:
            assert json.dumps(plain_yaml(content)).count("1") < 10 ** 6
        except ValueError as error:
            raise InputError("yaml", "", str(error)) from error
    return one


def command(folder: Path) -> Callable[[random.Random], None]:
    keep(folder, "one", [0.5, 0.6])
    uses = [["compare", str(folder)], ["report", str(folder), "--out", str(folder / "a.html")], ["options"], ["data", "show", "--cfg", "default"],
            ["run", "--cfg", "default", "--out-dir", str(folder / "out")], ["grid", "--grid", "grids/testing", "--dry-run", "--out-dir", str(folder)],
            ["predict", str(folder / "one"), "--out", str(folder / "a.csv")], ["discover", str(folder / "one")], ["data", "make", "a.csv", "b.csv", "--out", "c"]]
    flags = ["--metric", "--repeat", "--name", "--title", "--against", "--by", "--columns", "--alpha", "--format", "--sample", "--seed", "--jobs", "seed", "--cfg"]

    def one(draw: random.Random) -> None:
        given = list(draw.choice(uses))
        for _ in range(draw.randint(1, 3)):
            word = draw.choice(NASTY).decode("utf-8", "surrogateescape").replace("\0", "0")
            given.insert(draw.randint(1, len(given)), word if draw.random() < 0.6 else draw.choice(flags))
        if given[0] == "run" and not {*given} & {"--cfg"} or "0" in given or "1" in given or "true" in given:
            given = ["options", *given]
        try:
            status = main(given)
        except SystemExit as end:
            status = end.code
        if status == 2:
            raise InputError("words", given, "others")
        assert status == 0, given
    return one


KINDS = [config, words, grid_file, graph_pt, graph_npz, graph_folder, table, hetero, dblp, network, result, model, estimator, checkpoint, cached, yaml, command]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_input_is_read_or_refused(kind, tmp_path, gym, unchanged_globals, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = kind(tmp_path)
    wrong = []
    for number in range(COUNT // len(KINDS) + (KINDS.index(kind) < COUNT % len(KINDS))):
        try:
            one(random.Random(f"{kind.__name__} {number}"))
            FIGURES["read"] += 1
        except InputError:
            FIGURES["refused"] += 1
        except Exception as error:
            FIGURES["other"] += 1
            wrong.append((number, error))
    for number, error in wrong:
        import traceback
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "graphgym_srnc" in f.filename] or traceback.extract_tb(error.__traceback__)
        print(number, type(error).__name__, str(error)[:150], frames[-1].filename.rpartition("/")[2], frames[-1].lineno)
    assert not wrong, f"{len(wrong)} inputs"

"""Whatever a file holds, reading it ends in an ``InputError`` or in a value: damaged and hostile
files of every kind that is read.

``GRAPHGYM_SRNC_FUZZ=10000`` tries so many inputs in all; each is drawn from its number, so that a
failure can be looked at again.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import sys
import traceback
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import make_graph, make_task
from stored import PNG, Page, keep
from test_methods import make
from torch_geometric.data import Data, HeteroData

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import atomic, checksums, store, tensors
from graphgym_srnc.io.settings import config_root, plain_yaml
from graphgym_srnc.report import page, pictures
from graphgym_srnc.report.frame import collect

pytestmark = pytest.mark.filterwarnings("ignore")

COUNT = int(os.environ.get("GRAPHGYM_SRNC_FUZZ") or 300)
"""Inputs in all."""

ROOM = 2**30
"""Bytes of address space that reading a small file may take."""

FIGURES: Counter[str] = Counter()

NASTY = [
    part if isinstance(part, bytes) else part.encode()
    for part in (
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        "\u2028",
        "\u202e",
        "\u0661",
        "²",
        "é" * 300,
        "\x1b[31m",
        "\x85",
        "\r",
        "\n",
        "\n\n",
        "\t",
        " ",
        ",",
        ";",
        ":",
        ": ",
        "- ",
        "#",
        "'",
        '"',
        "%",
        "|",
        "=",
        "[",
        "]",
        "{",
        "}",
        "[]",
        "{}",
        "[" * 3000,
        "{a: " * 3000,
        '{"a":' * 3000,
        "&a [*a, *a]",
        "*a",
        "&a x",
        "<<: {a: 1}",
        "!!python/object/apply:os.system [true]",
        "? ",
        "---\n",
        "true",
        "null",
        "~",
        "nan",
        "-nan",
        "inf",
        "-1",
        "-0",
        "0",
        "1",
        "2.5",
        "1e999",
        "1e-400",
        "9" * 19,
        "9" * 30,
        "9" * 5000,
        "0x10",
        "1_000",
        "007",
        "True",
        "../../x",
        "/etc/passwd",
        "=1+1",
        "<script>",
        "\\input{x}",
        "unknown",
        "train",
        "test",
        "node",
        "x" * 200_000,
        "__class__",
        "a.b",
    )
]
"""What tends to go wrong somewhere."""

SHORT = [part for part in NASTY if len(part) < 10_000]
"""Not those over which torch's own search for the name of a refused class would take minutes."""

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    10**30,
    2**31,
    -(2**63),
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[31m<b>=1|",
    "é" * 300,
    [],
    [1],
    ["a"],
    [[1, 2], [3]],
    {},
    {"a": 1},
    {"x": {}},
    [None] * 3,
]
"""What may stand in the place of a value of another kind."""


def mutated(draw: random.Random, content: bytes, nasty: list[bytes] = NASTY) -> bytes:
    """A text or any other bytes with one to four places changed."""
    for _ in range(draw.randint(1, 4)):
        a, b = sorted(draw.randint(0, len(content)) for _ in range(2))
        b = min(b, a + draw.choice((1, 4, 20, 10**9)))
        words = content.split()
        way = draw.randrange(7)
        if way == 0 and content:
            place = draw.randrange(len(content))
            content = (
                content[:place]
                + bytes([content[place] ^ 1 << draw.randrange(8)])
                + content[place + 1 :]
            )
        elif way == 1:
            content = content[:a] + content[b:]
        elif way == 2:
            content = content[:b] + content[a:b] + content[b:]
        elif way == 3 and words:
            content = content.replace(draw.choice(words), draw.choice([*words, *nasty]), 1)
        elif way == 4:
            content = content[:a]
        else:
            content = content[:a] + draw.choice(nasty) + content[a if way == 5 else b :]
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
    x, y = value, value.float()
    ways: list[Callable[[], Any]] = [
        lambda: x[:-1],
        lambda: x[None],
        lambda: x.reshape(-1),
        lambda: x.T,
        lambda: x.double(),
        lambda: x.half(),
        lambda: x.to(torch.int8),
        lambda: x.bool(),
        lambda: x.to(torch.bfloat16),
        lambda: x.to(torch.complex64),
        lambda: x.to("meta"),
        lambda: x * 0,
        lambda: -x,
        lambda: x + 2**40,
        lambda: y * float("nan"),
        lambda: y.fill_(float("inf")),
        lambda: y / 3,
        lambda: x.new_zeros(0),
        lambda: x.new_zeros(()),
        lambda: torch.empty(3, 0),
        lambda: x.to_sparse(),
        lambda: y.to_sparse_csr(),
        lambda: wild(y),
        lambda: x[:1].expand(10**9, *x.shape[1:]),
        lambda: torch.zeros(1).expand(10**6, 10**6),
        lambda: x.tolist(),
        lambda: x.tolist()[0],
        lambda: draw.choice(VALUES),
        lambda: torch.quantize_per_tensor(y, 0.1, 0, torch.qint8),
    ]
    return draw.choice(ways)()


def wild(value: torch.Tensor) -> torch.Tensor:
    """A sparse tensor with an entry far outside it."""
    return torch.sparse_coo_tensor(
        torch.tensor([[0, 10**12]] * value.dim()),
        torch.ones(2),
        value.shape,
        check_invariants=False,
    )


def packed(draw: random.Random, content: bytes) -> bytes:
    """A zip file of which one member is changed, or the file itself."""
    if draw.random() < 0.3:
        return mutated(draw, content, SHORT)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = draw.choice([*names, *[name for name in names if name.endswith("data.pkl")] * 3])
        for name in names:
            member = old.read(name)
            if name != chosen:
                new.writestr(name, member)
            elif draw.random() < 0.9:
                new.writestr(
                    draw.choice([name] * 9 + ["../../" + name]),
                    mutated(draw, member[:400], SHORT) + member[400:],
                )
    return out.getvalue()


def saved(value: Any) -> bytes:
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def dumped(about: Any, state: dict[str, Any]) -> bytes:
    """A model or checkpoint with a right checksum, as far as the values can be written."""
    dense = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
    dense = {key: value.to_dense() for key, value in dense.items() if not value.is_meta}
    return tensors.dump(about if isinstance(about, dict) else {"about": about}, dense)


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
        print(
            f"\nfuzzed inputs: {FIGURES.total()}, of which {FIGURES['refused']} refused in one "
            f"line and {FIGURES['read']} read; "
            f"{FIGURES['other']} ended in another error"
        )


def cpu_graph() -> dict[str, torch.Tensor]:
    graph, node = make_graph(30, 3, 4), torch.arange(30)
    return {
        "x": graph.x,
        "edge_index": graph.edge_index,
        "y": graph.y,
        "train_mask": node < 12,
        "val_mask": (node >= 12) & (node < 20),
        "test_mask": node >= 20,
    }


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
    from graphgym_srnc.io.settings import flatten

    keys = sorted(flatten(load_config()))

    def one(draw: random.Random) -> None:
        value = draw.choice(NASTY).decode("utf-8", "surrogateescape")
        load_config(
            None,
            [draw.choice(keys + [value]), draw.choice([value, "[" + value + "]", value + "1"])],
        )

    return one


def grid_file(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.sweep import space

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
    (folder / "b.pt").write_bytes(whole[0])

    def one(draw: random.Random) -> None:
        if draw.random() < 0.4:
            content = packed(draw, draw.choice(whole))
        else:
            key = draw.choice(list(fields))
            try:
                content = saved(
                    draw.choice((dict, lambda fields: Data(**fields)))(
                        fields | {key: other_tensor(draw, fields[key])}
                    )
                )
            except Exception:
                content = packed(draw, whole[0])
        (folder / "a.pt").write_bytes(content)
        shifts.find("file")(path=str(folder / "a.pt"), open_set=draw.random() < 0.5)
        shifts.find("cross_graph")(
            source=str(folder / "a.pt"), target=str(folder / "b.pt"), labels_per_class=3, num_val=5
        )

    return one


def graph_npz(folder: Path) -> Callable[[random.Random], None]:
    fields = {name: value.numpy() for name, value in cpu_graph().items()}
    adjacency, x = (
        sp.csr_matrix((np.ones(fields["edge_index"].shape[1]), fields["edge_index"]), (30, 30)),
        sp.csr_matrix(fields["x"]),
    )
    benchmark = {
        f"{part}_{name}": getattr(matrix, name)
        for part, matrix in (("adj", adjacency), ("attr", x))
        for name in ("data", "indices", "indptr", "shape")
    } | {"labels": fields["y"]}

    def one(draw: random.Random) -> None:
        plain = dict(draw.choice((fields, benchmark)))
        if draw.random() < 0.6:
            key = draw.choice(list(plain))
            try:
                changed = np.asarray(other_tensor(draw, torch.as_tensor(plain[key])))
            except Exception:
                kind = draw.choice(("U5", "S5", "datetime64[s]", "O", "c8", "u1", [("a", "i4")]))
                changed = np.array(plain[key]).astype(kind, casting="unsafe")
            content = arrays(
                **plain | {key: changed if changed.nbytes < 10**6 else changed.flat[:3]}
            )
        else:
            content = packed(draw, arrays(**plain))
        (folder / "a.npz").write_bytes(content)
        shifts.find("file")(
            path=str(folder / "a.npz"),
            split=draw.choice(("auto", "random")),
            num_val=3,
            labels_per_class=2,
        )

    return one


def graph_folder(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.data import names as _names

    fields, names = cpu_graph(), ("art", "law", "math")
    sparse, dense = io.BytesIO(), io.BytesIO()
    sp.save_npz(sparse, sp.csr_matrix(fields["x"].numpy()))
    np.save(dense, fields["x"].numpy())
    files = {
        "edges.csv": text([("from", "to"), *fields["edge_index"].T.tolist()]),
        "labels.csv": text(
            [
                ("node", "label"),
                *((node, names[label]) for node, label in enumerate(fields["y"].tolist())),
            ]
        ),
        "split.csv": text(
            [
                ("node", "part"),
                *((node, ("train", "val", "test")[node // 10]) for node in range(30)),
            ]
        ),
        "nodes.csv": text([("id", "text"), *((f"n{node}", f"text {node}") for node in range(30))]),
        "words.txt": b"a\nb\nc\nd\n",
    }
    lost = sp.csr_matrix(fields["x"].numpy())
    lost.indices[-1] = 10**8
    outside = io.BytesIO()
    sp.save_npz(outside, lost)
    features = {
        "features.csv": text(fields["x"].tolist()),
        "features.npz": sparse.getvalue(),
        "features.npy": dense.getvalue(),
    }
    edges = {
        f"edges.{kind}": files["edges.csv"].replace(b",", mark)
        for kind, mark in (("txt", b" "), ("csv", b","), ("tsv", b"\t"))
    }

    def one(draw: random.Random) -> None:
        for file in folder.iterdir():
            file.unlink()
        links, x = draw.choice(list(edges)), draw.choice(list(features))
        written = {**files, x: features[x]}
        del written["edges.csv"]
        written[links] = edges[links]
        key = draw.choice(list(written))
        written[key] = (packed if key.endswith("npz") else mutated)(draw, written[key])
        if key == "features.npz" and draw.random() < 0.2:
            written[key] = outside.getvalue()
        for name, content in written.items():
            (folder / name).write_bytes(content)
        try:
            shifts.find("file")(path=str(folder), mapped=draw.random() < 0.5)
        finally:
            _names.of_folder(folder, 30, 4)

    return one


def table(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.data import folder as folders
    from graphgym_srnc.own.tables.homogeneous import make_graph

    rows = [("key", "title", "size", "land", "class", "split")]
    rows += [
        (
            f"k{node}",
            f"word{node % 3} word{node % 4} words",
            node / 3,
            "abc"[node % 3],
            "xy"[node % 2],
            ("train", "test")[node // 9],
        )
        for node in range(12)
    ]
    nodes, links, array = (
        text(rows),
        text([(f"k{node}", f"k{(node * 5 + 1) % 12}") for node in range(12)]),
        io.BytesIO(),
    )
    np.save(array, np.eye(12))
    (folder / "nodes.csv").write_bytes(nodes)
    (folder / "links.csv").write_bytes(links)
    options = {
        "label": "class",
        "split": "split",
        "text": ["title"],
        "numbers": ["size"],
        "categories": ["land"],
    }
    made, _ = make_graph(folder / "nodes.csv", folder / "links.csv", **options)
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
            content = json.dumps(recipe).encode()
            (folder / key).write_bytes(
                mutated(draw, content)
                if draw.random() < 0.3
                else json.dumps(other(draw, recipe)).encode()
            )
            made, _ = make_graph(given["nodes.csv"], given["links.csv"], label="class", like=folder)
        else:
            more = {"embeddings": given["own.npy"], "spectral": draw.choice((0, 2))}
            made, _ = make_graph(given["nodes.csv"], given["links.csv"], **options, **more)
        folders.summary(made)
        folders.write(made, folder / "out", True)

    return one


def hetero(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.own.tables.hetero import make_graph, read_pt

    fields = {"x": torch.rand(6, 3), "y": torch.arange(6) % 2, "train_mask": torch.arange(6) < 3}
    more = {"name": [*"abcdef"], "ids": [*"abcdef"], "num_nodes": 6}

    def data(fields: dict, links: Any) -> HeteroData:
        graph = HeteroData()
        graph["paper"].update(fields)
        graph["author"].num_nodes = 4
        graph["paper", "by", "author"].edge_index = links
        return graph

    links = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]])

    def one(draw: random.Random) -> None:
        key, content = draw.choice([*fields, *more, "links", ""]), b""
        if key:
            try:
                value = (
                    draw.choice(VALUES)
                    if key in more
                    else other_tensor(draw, links if key == "links" else fields[key])
                )
                content = saved(
                    data(
                        fields | ({} if key == "links" else {key: value}),
                        value if key == "links" else links,
                    )
                )
            except Exception:
                key = ""
        whole = data(fields | more, links)
        (folder / "a.pt").write_bytes(content if key else packed(draw, saved(whole)))
        make_graph(read_pt(folder / "a.pt"), "paper", ["paper-author-paper"])

    return one


def ogb_folder(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.own.tables import ogb

    files = {
        "raw/edge": b"0,1\n1,2\n",
        "raw/node-feat": b"0.5,0\n1,2\n0,0\n",
        "raw/node-label": b"0\n1\nnan\n",
        "raw/num-node-list": b"3\n",
        "split/time/train": b"0\n",
        "split/time/valid": b"1\n",
        "split/time/test": b"2\n",
        "mapping/labelidx2name": b"label,name\n0,a\n1,b\n",
    }
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)

    def one(draw: random.Random) -> None:
        key, after = draw.choice(list(files)), draw.random() < 0.2
        for name, content in files.items():
            content = mutated(draw, content) if name == key and not after else content
            packed = gzip.compress(content)
            (folder / f"{name}.csv.gz").write_bytes(
                mutated(draw, packed) if name == key and after else packed
            )
        ogb.read_folder(folder)

    return one


def result(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.report import compare, render, summary

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
        if draw.random() < 0.9:
            checksums.write(run, ["result.json"])
        (run / "error.txt").write_bytes(
            mutated(draw, b"Traceback (most recent call last):\n  here\nValueError: x\n")
        )
        atomic.write_bytes(
            run / "figures" / "confusion-selected.png", mutated(draw, PNG), durable=False
        )
        title = draw.choice(NASTY).decode("utf-8", "surrogateescape")
        acts = (
            lambda: place.plan([0, 1, 2], resume=True),
            lambda: place.aggregate(),
            lambda: store.read_results(folder / "one"),
            lambda: [
                render.FORMATS[form](compare.table(collect([folder]).runs))
                for form in render.FORMATS
            ],
            lambda: summary.to_markdown([summary.summarise("one", place.aggregate(), folder)]),
            lambda: page.render(collect([folder]), ["micro_f1"], title=title),
        )
        draw.choices(acts, (2, 4, 1, 4, 4, 1))[0]()

    return one


def model(folder: Path) -> Callable[[random.Random], None]:
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.gym import model as models
    from graphgym_srnc.gym import run as runs

    sizes = {"num_nodes": 90, "num_val": 20, "num_test": 30, "labels_per_class": 3}
    cfg = load_config(
        None,
        [
            *(word for name, size in sizes.items() for word in (f"synthetic.{name}", size)),
            "gnn.dim_inner",
            "4",
            "train.mode",
            "erm",
            "erm.steps",
            "1",
            "erm.rounds",
            "0",
            "out_dir",
            str(folder),
        ],
    )
    runs.run(cfg, 0, runs.experiment(cfg, "one"), extras=runs.Extras(False))
    run = folder / "one" / "0"
    whole, told = (run / models.FILE).read_bytes(), json.loads((run / "result.json").read_bytes())
    about, weights = tensors.parse(whole)

    def one(draw: random.Random) -> None:
        name = draw.choice(("about", "state", "bytes", "record"))
        state, said = dict(weights), about
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
                said = about | {"facts": about["facts"] | {"digest": changed["digest"]}}
        store.write_record(run, changed)
        (run / models.FILE).write_bytes(
            mutated(draw, whole) if name == "bytes" else dumped(said, state)
        )
        models.load(run).predict(make_graph(20, 3, told["config"]["synthetic"]["num_features"]))

    return one


def estimator(folder: Path) -> Callable[[random.Random], None]:
    import graphgym_srnc

    graphgym_srnc.ERM(hidden=4, steps=1, rounds=0).fit(make_task()).save(folder / "whole.pt")
    whole = (folder / "whole.pt").read_bytes()
    about, state = tensors.parse(whole)

    def one(draw: random.Random) -> None:
        (folder / "a.pt").write_bytes(
            mutated(draw, whole) if draw.random() < 0.4 else dumped(other(draw, about), state)
        )
        graphgym_srnc.load(folder / "a.pt").predict_proba(make_graph())

    return one


def checkpoint(folder: Path) -> Callable[[random.Random], None]:
    from test_checkpoint import Scores

    from graphgym_srnc.gym.checkpoint import Checkpoint
    from graphgym_srnc.train import trainer

    place = store.Experiment(folder, "one", {"seed": 0, "train": {"mode": "erm"}})
    place.begin(0)

    def new() -> Checkpoint:
        return Checkpoint(place, 0, "split", 1.0, lambda line: None, True, Scores())

    trainer.fit(make("erm", rounds=1), make_task(), checkpoint=new())
    whole = new().path.read_bytes()
    about, state = tensors.parse(whole)

    def one(draw: random.Random) -> None:
        new().path.write_bytes(
            mutated(draw, whole) if draw.random() < 0.3 else dumped(other(draw, about), state)
        )
        new().read()

    return one


def yaml(folder: Path) -> Callable[[random.Random], None]:
    def one(draw: random.Random) -> None:
        content = mutated(draw, b"a: {b: [1, 2], c: x}\nd: 'e'\n").decode("utf-8", "replace")
        try:
            assert json.dumps(plain_yaml(content)).count("1") < 10**6
        except ValueError as error:
            raise InputError("yaml", "", str(error)) from error

    return one


def command(folder: Path) -> Callable[[random.Random], None]:
    keep(folder, "one", [0.5, 0.6])
    uses = [
        line.split()
        for line in (
            "compare .",
            "report . --out a.html",
            "options",
            "data show --cfg default",
            "predict one --out a.csv",
            "run --cfg default --out-dir o",
            "grid --grid grids/testing --dry-run",
            "discover one",
            "data make a.csv b.csv --out c",
        )
    ]
    flags = (
        "--metric --repeat --name --title --against --by --columns --alpha --format --sample "
        "--jobs seed --cfg --debug"
    ).split()

    def one(draw: random.Random) -> None:
        given = list(draw.choice(uses))
        for _ in range(draw.randint(1, 3)):
            word = draw.choice(NASTY).decode("utf-8", "surrogateescape").replace("\0", "0")
            given.insert(
                draw.randint(1, len(given)), word if draw.random() < 0.6 else draw.choice(flags)
            )
        try:
            status = main(given)
        except SystemExit as end:
            status = end.code
        if status == 2:
            raise InputError("words", given, "others")
        assert status == 0, given

    return one


KINDS = [
    config,
    words,
    grid_file,
    graph_pt,
    graph_npz,
    graph_folder,
    table,
    hetero,
    ogb_folder,
    result,
    model,
    estimator,
    checkpoint,
    yaml,
    command,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_input_is_read_or_refused(kind, tmp_path, gym, unchanged_globals, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(pictures, "figures_of", lambda results, metric: iter(()))
    monkeypatch.setattr(pictures, "_ranks", lambda table: iter(()))
    try_one, wrong = kind(tmp_path), []
    for number in range(KINDS.index(kind), COUNT, len(KINDS)):
        try:
            try_one(random.Random(f"{kind.__name__} {number}"))
            FIGURES["read"] += 1
        except InputError as error:
            FIGURES["refused"] += 1
            assert str(error)
        except Exception as error:
            FIGURES["other"] += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            wrong.append(
                f"{number}: {type(error).__name__}: {str(error)[:100]} ({place.filename}, "
                f"line {place.lineno})"
            )
    assert not wrong and "Traceback" not in sys.stderr.getvalue(), "\n".join(wrong)


def test_names_of_strangers_steer_nothing(tmp_path, unchanged_globals, monkeypatch, capsys):
    """Classes, words, ids, titles and experiments with markup, formulas and commands, through a run
    and all that is made of it."""
    classes = [
        "<script>alert(1)</script>|x",
        "=cmd()|'/C calc'!A0",
        "$\\nosuch{\\input{/etc/passwd}$",
        "\x1b[31m@SUM(1)\u202e",
    ]
    graph = make_graph(120, 4, 6)
    folder = tmp_path / "graph"
    folder.mkdir()
    np.save(folder / "features.npy", graph.x.numpy())
    for name, rows in {
        "edges.csv": graph.edge_index.T.tolist(),
        "nodes.csv": [("id",), *((f"=1+{node}",) for node in range(120))],
        "labels.csv": [
            ("node", "label"),
            *((node, classes[label]) for node, label in enumerate(graph.y.tolist())),
        ],
    }.items():
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
    monkeypatch.chdir(tmp_path)
    sizes = (
        "file.num_val 30 file.num_test 40 file.labels_per_class 5 file.num_unseen 1 "
        "gnn.dim_inner 8 train.mode erm erm.steps 2"
    ).split()
    assert (
        main(
            [
                "run",
                "--name",
                "=<b>",
                "--out-dir",
                "out",
                "dataset.format",
                "file",
                "dataset.name",
                "graph",
                *sizes,
            ]
        )
        == 2
    )
    for words in (
        [
            "run",
            "--name",
            "=b",
            "--out-dir",
            "out",
            "dataset.format",
            "file",
            "dataset.name",
            "graph",
            *sizes,
        ],
        ["compare", "out", "--out", "a.tex"],
        ["compare", "out", "--out", "a.csv"],
        ["compare", "out", "--out", "a.md"],
        ["report", "out", "--out", "a.html", "--title", f"{classes[0]}\n\x1b{{{{7*7}}}}"],
        ["predict", "out/=b", "--out", "predicted.csv", "--probabilities"],
        ["data", "show", "dataset.format", "file", "dataset.name", "graph", *sizes],
    ):
        assert main(words) == 0
    made = {
        path.name: path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*")
        if path.suffix in (".csv", ".md", ".html", ".tex", ".tsv") and folder not in path.parents
    }
    shown = [
        content for name, content in made.items() if name != "predicted.csv"
    ]  # which has the names as they are
    assert "\x1b" not in "".join([*shown, *capsys.readouterr()]) and len(shown) >= 7
    for name in ("summary.csv", "a.csv", "predicted.csv"):
        cells = [cell for row in csv.reader(io.StringIO(made[name])) for cell in row]
        assert cells, name
        assert not [
            cell
            for cell in cells
            if cell[:1] in tuple("=+@\t\r") or cell[:1] == "-" and not is_number(cell)
        ], name
    page = Page(made["a.html"])
    assert not page.all("script")
    assert not [key for _, found in page.tags for key in found if key.startswith("on")]
    assert "{{7*7}}" in page.text
    assert "<script" not in made["a.md"] + made["summary.md"] and "\\input" not in made["a.tex"]


def is_number(text: str) -> bool:
    try:
        return bool(float(text)) or True
    except ValueError:
        return False


def test_indices_outside_their_matrix_are_refused(tmp_path):
    """SciPy and torch would read and write there."""
    fields = cpu_graph()
    lost = sp.csr_matrix(fields["x"].numpy())
    lost.indices[-1] = 10**8
    parts = {
        f"{part}_{name}": getattr(lost, name)
        for part in ("adj", "attr")
        for name in ("data", "indices", "indptr", "shape")
    }
    (tmp_path / "a.npz").write_bytes(arrays(**parts, labels=fields["y"]))
    (tmp_path / "a.pt").write_bytes(saved(fields | {"x": wild(fields["x"])}))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "edges.csv").write_bytes(text(fields["edge_index"].T.tolist()))
    (folder / "labels.csv").write_bytes(text(fields["y"][:, None].tolist()))
    sp.save_npz(folder / "features.npz", lost)
    for place in (tmp_path / "a.npz", tmp_path / "a.pt", folder):
        with pytest.raises(InputError):
            shifts.find("file")(path=str(place))


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x]\nb: [*a, *a]",
        "a: {<<: &a {b: 1}, c: *a}",
        "[" * 5000,
        "{a: " * 5000,
        "- " * 5000,
        "a: \0",
        "a: 1\nb: 2\na: 3",
    ],
)
def test_yaml_bombs_are_refused(bomb, tmp_path):
    from graphgym_srnc.gym import load_config

    with pytest.raises(ValueError):
        plain_yaml(bomb)
    (tmp_path / "a.yaml").write_text(bomb)
    with pytest.raises(InputError, match="readable yaml file"):
        load_config(tmp_path / "a.yaml")

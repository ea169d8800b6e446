"""Damaged and hostile files of every kind: reading one ends in an ``InputError`` or in a value.

``GRAPHGYM_SRNC_FUZZ=10000`` tries so many inputs in all; each is drawn from its number.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import random
import sys
import traceback
import zipfile
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import make_graph, make_task
from stored import PNG, Page, keep
from torch_geometric.data import Data, HeteroData

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic, checksums, store, tensors
from graphgym_srnc.io.settings import config_root, plain_yaml
from graphgym_srnc.report import page, pictures
from graphgym_srnc.report.frame import collect

pytestmark = pytest.mark.filterwarnings("ignore")

Try = Callable[[random.Random], None]
"""Reads one input, drawn from a generator."""

COUNT = int(os.environ.get("GRAPHGYM_SRNC_FUZZ") or 50)
"""Inputs in all."""

ROOM = 2**30
"""Bytes of address space that reading a small file may take."""

BYTES = "\0 \xff \xef\xbb\xbf \xff\xfe \xed\xa0\x80 \xc2\xb2 \x1b[31m \r \n \n\n \t"
WORDS = (
    ", ; : - # ' \" % | = [ ] { } [] {} *a ~ true null nan -nan inf -1 -0 0 1 2.5 1e999 1e-400 "
    "0x10 1_000 007 True ../../x /etc/passwd =1+1 <script> \\input{x} unknown train test node "
    "__class__ a.b \u2028 \u202e \u0661"
)
NASTY = [
    *BYTES.encode("latin-1").split(b" "),
    *WORDS.encode().split(b" "),
    *(b"9" * 19, b"9" * 30, b"9" * 5000, "\u00e9".encode() * 300, b"[" * 3000, b"x" * 200_000),
    *(b" ", b": ", b"- ", b"? ", b"---\n", b'{"a":' * 3000, b"{a: " * 3000, b"<<: {a: 1}"),
    *(b"&a [*a, *a]", b"!!python/object/apply:os.system [true]"),
]
"""What tends to go wrong somewhere."""

SHORT = [part for part in NASTY if len(part) < 10_000]
"""Not those over which torch's own search for the name of a refused class would take minutes."""

VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 2**31, -(2**63), 0.5, float("nan"), float("inf"), "", "x"),
    *("\x1b[31m<b>=1|", "\u00e9" * 300, [], [1], ["a"], [[1, 2], [3]], {}, {"a": 1}, [None] * 3),
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
    kinds = "float64 float16 int8 bool bfloat16 complex64".split()
    ways: list[Callable[[], Any]] = [
        *(lambda kind=kind: x.to(getattr(torch, kind)) for kind in kinds),
        lambda: x.to("meta"),
        *(lambda by=by: y * by for by in (0, -1, 1 / 3, float("nan"), float("inf"), 2**40)),
        *(lambda shape=shape: x.new_zeros(shape) for shape in ((0,), (), (3, 0))),
        lambda: x[:-1],
        lambda: x[None],
        lambda: x.T,
        lambda: x.to_sparse(),
        lambda: y.to_sparse_csr(),
        lambda: wild(y),
        lambda: x[:1].expand(10**9, *x.shape[1:]),
        lambda: torch.zeros(1).expand(10**6, 10**6),
        lambda: x.tolist(),
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


def csr(part: str, matrix: Any) -> dict[str, np.ndarray]:
    names = ("data", "indices", "indptr", "shape")
    return {f"{part}_{name}": getattr(matrix, name) for name in names}


def changed(draw: random.Random, fields: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The fields with one of them changed; an error if that cannot be."""
    key = draw.choice(list(fields))
    return fields | {key: other_tensor(draw, fields[key])}


def text(rows: Any) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


@pytest.fixture(scope="module", autouse=True)
def bounds() -> Iterator[None]:
    """Address space that a bomb would burst."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


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


def config(folder: Path) -> Try:
    from graphgym_srnc.gym import load_config

    files = [path.read_bytes() for path in sorted(config_root().rglob("*.yaml"))]

    def one(draw: random.Random) -> None:
        (folder / "a.yaml").write_bytes(mutated(draw, draw.choice(files)))
        load_config(folder / "a.yaml")

    return one


def graph_pt(folder: Path) -> Try:
    fields = cpu_graph()
    whole = saved(Data(**fields)), saved(fields)
    (folder / "b.pt").write_bytes(whole[0])

    def one(draw: random.Random) -> None:
        content, kind = packed(draw, draw.choice(whole)), draw.choice((dict, Data))
        with contextlib.suppress(Exception):
            if draw.random() < 0.6:
                content = saved(kind(**changed(draw, fields)))
        (folder / "a.pt").write_bytes(content)
        shifts.find("file")(path=str(folder / "a.pt"), open_set=draw.random() < 0.5)
        pair = {"source": str(folder / "a.pt"), "target": str(folder / "b.pt")}
        shifts.find("cross_graph")(**pair, labels_per_class=3, num_val=5)

    return one


def graph_npz(folder: Path) -> Try:
    fields = {name: value.numpy() for name, value in cpu_graph().items()}
    ones = np.ones(fields["edge_index"].shape[1])
    adjacency = sp.csr_matrix((ones, fields["edge_index"]), (30, 30))
    benchmark = csr("adj", adjacency) | csr("attr", sp.csr_matrix(fields["x"]))
    benchmark |= {"labels": fields["y"]}

    def one(draw: random.Random) -> None:
        plain = dict(draw.choice((fields, benchmark)))
        content = packed(draw, arrays(**plain))
        if draw.random() < 0.6:
            key = draw.choice(list(plain))
            try:
                value = np.asarray(other_tensor(draw, torch.as_tensor(plain[key])))
            except Exception:
                kind = draw.choice(("U5", "S5", "datetime64[s]", "O", "c8", "u1", [("a", "i4")]))
                value = np.array(plain[key]).astype(kind, casting="unsafe")
            content = arrays(**plain | {key: value if value.nbytes < 10**6 else value.flat[:3]})
        (folder / "a.npz").write_bytes(content)
        sizes = {"split": draw.choice(("auto", "random")), "num_val": 3, "labels_per_class": 2}
        shifts.find("file")(path=str(folder / "a.npz"), **sizes)

    return one


def graph_folder(folder: Path) -> Try:
    from graphgym_srnc.data import names as _names

    fields = cpu_graph()
    sparse, dense = io.BytesIO(), io.BytesIO()
    sp.save_npz(sparse, sp.csr_matrix(fields["x"].numpy()))
    np.save(dense, fields["x"].numpy())
    labels = [(node, ("art", "law", "math")[y]) for node, y in enumerate(fields["y"].tolist())]
    parts = [(node, ("train", "val", "test")[node // 10]) for node in range(30)]
    links = text([("from", "to"), *fields["edge_index"].T.tolist()])
    files = {
        "labels.csv": text([("node", "label"), *labels]),
        "split.csv": text([("node", "part"), *parts]),
        "nodes.csv": text([("id", "text"), *((f"n{node}", f"text {node}") for node in range(30))]),
        "words.txt": b"a\nb\nc\nd\n",
    }
    features = {
        "features.csv": text(fields["x"].tolist()),
        "features.npz": sparse.getvalue(),
        "features.npy": dense.getvalue(),
    }
    marks = {"txt": b" ", "csv": b",", "tsv": b"\t"}

    def one(draw: random.Random) -> None:
        for file in folder.iterdir():
            file.unlink()
        kind, x = draw.choice(list(marks)), draw.choice(list(features))
        written = {**files, x: features[x], f"edges.{kind}": links.replace(b",", marks[kind])}
        key = draw.choice(list(written))
        written[key] = (packed if key.endswith("npz") else mutated)(draw, written[key])
        for name, content in written.items():
            (folder / name).write_bytes(content)
        try:
            shifts.find("file")(path=str(folder), mapped=draw.random() < 0.5)
        finally:
            _names.of_folder(folder, 30, 4)

    return one


def table(folder: Path) -> Try:
    from graphgym_srnc.data import folder as folders
    from graphgym_srnc.own.tables.homogeneous import make_graph

    rows = []
    for n in range(12):
        cells = f"word{n % 3} word{n % 4}", n / 3, "abc"[n % 3], "xy"[n % 2]
        rows.append((f"k{n}", *cells, ("train", "test")[n // 9]))
    array = io.BytesIO()
    np.save(array, np.eye(12))
    whole = {
        "nodes.csv": text([("key", "title", "size", "land", "class", "split"), *rows]),
        "links.csv": text([(f"k{n}", f"k{(n * 5 + 1) % 12}") for n in range(12)]),
        "own.npy": array.getvalue(),
    }
    given = {name: folder / name for name in whole}
    for name, content in whole.items():
        given[name].write_bytes(content)
    options = {"label": "class", "split": "split"}
    options |= {"text": ["title"], "numbers": ["size"], "categories": ["land"]}
    made, _ = make_graph(given["nodes.csv"], given["links.csv"], **options)
    recipe = json.loads(json.dumps(made.recipe))

    def one(draw: random.Random) -> None:
        key = draw.choice([*whole, "recipe.json"])
        for name, content in whole.items():
            given[name].write_bytes(mutated(draw, content) if name == key else content)
        tables = given["nodes.csv"], given["links.csv"]
        if key == "recipe.json":
            content = json.dumps(other(draw, recipe)).encode()
            if draw.random() < 0.3:
                content = mutated(draw, json.dumps(recipe).encode())
            (folder / key).write_bytes(content)
            made, _ = make_graph(*tables, label="class", like=folder)
        else:
            more = {"embeddings": given["own.npy"], "spectral": draw.choice((0, 2))}
            made, _ = make_graph(*tables, **options, **more)
        folders.summary(made)
        folders.write(made, folder / "out", True)

    return one


def hetero(folder: Path) -> Try:
    from graphgym_srnc.own.tables.hetero import make_graph, read_pt

    links = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]])
    fields = {"x": torch.rand(6, 3), "y": torch.arange(6) % 2, "train_mask": torch.arange(6) < 3}
    fields["links"] = links
    more = {"name": [*"abcdef"], "ids": [*"abcdef"], "num_nodes": 6}

    def data(links: Any, **fields: Any) -> HeteroData:
        graph = HeteroData()
        graph["paper"].update(fields)
        graph["author"].num_nodes = 4
        graph["paper", "by", "author"].edge_index = links
        return graph

    def one(draw: random.Random) -> None:
        content = packed(draw, saved(data(**fields, **more)))
        with contextlib.suppress(Exception):
            if draw.random() < 0.8:
                key = draw.choice([*more, ""])
                value = {key: draw.choice(VALUES)} if key else {}
                content = saved(data(**(fields if key else changed(draw, fields)) | more | value))
        (folder / "a.pt").write_bytes(content)
        make_graph(read_pt(folder / "a.pt"), "paper", ["paper-author-paper"])

    return one


def result(folder: Path) -> Try:
    from graphgym_srnc.report import compare, render, summary

    keep(folder, "one", [0.5, 0.6], labels={"a": {"source": 1, "target": 2}})
    keep(folder, "two", [0.7, 0.6], "srnc", warnings=["w"])
    run = folder / "one" / "0"
    record = json.loads((run / "result.json").read_text())
    place = store.Experiment(folder, "one", record["config"])

    def one(draw: random.Random) -> None:
        said = other(draw, record)
        if isinstance(said, dict) and isinstance(said.get("config"), dict):
            said["digest"] = store.digest(said["config"])
        content = json.dumps(said).encode()
        if draw.random() < 0.3:
            content = mutated(draw, json.dumps(record).encode())
        (run / "result.json").write_bytes(content)
        if draw.random() < 0.9:
            checksums.write(run, ["result.json"])
        trace = b"Traceback (most recent call last):\n  here\nValueError: x\n"
        (run / "error.txt").write_bytes(mutated(draw, trace))
        picture = run / "figures" / "confusion-selected.png"
        atomic.write_bytes(picture, mutated(draw, PNG), durable=False)
        title = draw.choice(NASTY).decode("utf-8", "surrogateescape")
        form = draw.choice(list(render.FORMATS))
        acts = (
            lambda: place.plan([0, 1, 2], resume=True),
            lambda: place.aggregate(),
            lambda: render.FORMATS[form](compare.table(collect([folder]).runs)),
            lambda: summary.to_markdown([summary.summarise("one", place.aggregate(), folder)]),
            lambda: page.render(collect([folder]), ["micro_f1"], title=title),
        )
        draw.choice(acts)()

    return one


def trained(folder: Path) -> Try:
    """A trained model, whose content is another under a right checksum."""
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


def command(folder: Path) -> Try:
    keep(folder, "one", [0.5, 0.6])
    lines = (
        "compare .|report . --out a.html|options|data show --cfg default|predict one --out a.csv|"
        "run --cfg default --out-dir o|grid --grid grids/testing --dry-run|discover one|"
        "data make a.csv b.csv --out c"
    )
    uses = [line.split() for line in lines.split("|")]
    flags = (
        "--metric --repeat --name --title --against --by --columns --alpha --format --sample "
        "--jobs seed --cfg --debug"
    ).split()

    def one(draw: random.Random) -> None:
        given = list(draw.choice(uses))
        for _ in range(draw.randint(1, 3)):
            word = draw.choice(NASTY).decode("utf-8", "surrogateescape").replace("\0", "0")
            word = word if draw.random() < 0.6 else draw.choice(flags)
            given.insert(draw.randint(1, len(given)), word)
        try:
            status = main(given)
        except SystemExit as end:
            status = end.code
        if status == 2:
            raise InputError("words", given, "others")
        assert status == 0, given

    return one


KINDS = [
    *(config, graph_pt, graph_npz, graph_folder, table, hetero),
    *(result, trained, command),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_input_is_read_or_refused(kind, tmp_path, gym, unchanged_globals, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for name in ("curves", "sensitivity", "_ranks", "_means"):
        monkeypatch.setattr(pictures, name, lambda *words: iter(()))
    try_one, wrong = kind(tmp_path), []
    for number in range(KINDS.index(kind), COUNT, len(KINDS)):
        try:
            try_one(random.Random(f"{kind.__name__} {number}"))
        except InputError as error:
            assert str(error)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{number}: {type(error).__name__}: {str(error)[:100]}"
            wrong.append(f"{message} ({at.filename}, line {at.lineno})")
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
    data = ("dataset.format", "file", "dataset.name", "graph", *sizes)
    assert main(["run", "--name", "=<b>", "--out-dir", "out", *data]) == 2
    for words in (
        ["run", "--no-figures", "--no-tensorboard", "--name", "=b", "--out-dir", "out", *data],
        ["compare", "out", "--out", "a.tex"],
        ["compare", "out", "--out", "a.csv"],
        ["compare", "out", "--out", "a.md"],
        ["report", "out", "--out", "a.html", "--title", f"{classes[0]}\n\x1b{{{{7*7}}}}"],
        ["predict", "out/=b", "--out", "predicted.csv", "--probabilities"],
        ["data", "show", *data],
    ):
        assert main(words) == 0
    made = {
        path.name: path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*")
        if path.suffix in (".csv", ".md", ".html", ".tex", ".tsv") and folder not in path.parents
    }
    # predicted.csv has the names as they are.
    shown = [content for name, content in made.items() if name != "predicted.csv"]
    assert "\x1b" not in "".join([*shown, *capsys.readouterr()]) and len(shown) >= 6
    for name in ("summary.csv", "a.csv", "predicted.csv"):
        cells = [cell for row in csv.reader(io.StringIO(made[name])) for cell in row]
        assert cells and not any(map(is_formula, cells)), name
    page = Page(made["a.html"])
    assert not page.all("script")
    assert not [key for _, found in page.tags for key in found if key.startswith("on")]
    assert "{{7*7}}" in page.text
    assert "<script" not in made["a.md"] + made["summary.md"] and "\\input" not in made["a.tex"]


def is_formula(cell: str) -> bool:
    try:
        return bool(cell) and cell[0] in "=+@\t\r-" and float(cell) is None
    except ValueError:
        return True


def test_indices_outside_their_matrix_are_refused(tmp_path):
    """SciPy and torch would read and write there."""
    fields = cpu_graph()
    lost = sp.csr_matrix(fields["x"].numpy())
    lost.indices[-1] = 10**8
    parts = csr("adj", lost) | csr("attr", lost) | {"labels": fields["y"]}
    (tmp_path / "a.npz").write_bytes(arrays(**parts))
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
        "[" * 1000,
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

"""Count what happens with bad files, bad arguments, disk faults and killed processes.

    python benchmarks/faults.py                       # all parts with all trials
    python benchmarks/faults.py disk --trials 200     # one part, fewer trials
    python benchmarks/faults.py inputs --only 4711    # one trial again

``flips`` change a bit of a stored file that a command reads. ``inputs`` are files and arguments
with errors or in unusual forms. ``disk`` lets a file operation of a command fail, and ``kills``
ends a command with SIGKILL; after both, the command is run again.

A trial is refused (an error, or killed), harmless (the right result), told (another result and a
note), read (a result that this program cannot judge) or WRONG: another result without a note, an
internal error, a lost or half-written file, code of a file that ran, a command that fails when it
is repeated, too much memory or time. The exit status is 1 if a trial is WRONG.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import hashlib
import io
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

import graphgym_srnc
from graphgym_srnc.cli.main import main as command
from graphgym_srnc.core.text import tell_changed
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic
from graphgym_srnc.io.settings import config_root
from graphgym_srnc.sweep import local, worker
from graphgym_srnc.sweep.jobs import Outcome, attempt

TRIALS = {"flips": 10_000, "inputs": 10_000, "disk": 3_000, "kills": 300}
OUTCOMES = ("refused", "harmless", "told", "read", "WRONG")
SECONDS, MEMORY = 60, 3 * 2**30
"""Limits of a trial: seconds, and bytes of address space beside those of this program."""

TINY = "gnn.dim_inner 4 train.mode erm erm.steps 1 erm.rounds 1 --out-dir out"
SIZES = "num_nodes 90 num_val 20 num_test 30 num_features 20 labels_per_class 3"
SMALL = re.sub("(num|lab)", r"synthetic.\1", SIZES) + f" --no-figures {TINY}"
SHOW = "data show --cfg own file.num_val 5 file.num_test 5 dataset.name"
MAKE = "data make tables/nodes.csv tables/edges.csv --text title --overwrite"
HETERO = "--node paper --metapath paper-author-paper --overwrite --out"
GRID = f"--jobs 1 {SMALL}".replace("--no-figures ", "")
COMMANDS = f"""data example tables --nodes 200 --labelled 0.5 --overwrite
{MAKE} --out own
run --cfg own --name mine {TINY} file.num_val 30 file.num_test 40 dataset.name own
run --name new --resume --repeat # {SMALL}
grid --grid grid.txt --resume --name g --repeat # --no-tensorboard {GRID}
tune --trials # --seeds 100 --name t --sampler random {GRID}
predict out/mine --out predicted.csv --overwrite
discover out/mine --clusters 6 --csv found.csv --name 1=new --labels-out named --overwrite
{MAKE} --max-words 5# --out made
data make hetero.pt {HETERO} papers
data example example --nodes 20# --overwrite
{SHOW} graph.pt
{SHOW} graph.npz
grid --cfg out/t/tuned/erm.yaml --grid out/t/tuned.txt --dry-run
compare out/mine out/new --out table.csv --overwrite
report out/mine --out page.html --overwrite
check out/mine
save estimator.pt
load estimator.pt
run --name stopped --resume {SMALL} train.checkpoint 1""".splitlines()
"""Commands that make older results with # = 1, and meet faults with # = 2; the last was killed."""

CHANGING = re.compile(rb'"(sha256|\w*seconds\w*|time_iter\w*|peak_\w+)\\?": ?[^,}\n]*')
HIDDEN = re.compile(r"(^|/)\.|damaged|error.txt|events|checkpoint|^cache|SHA256SUMS|tuned.lo")
NOTE = re.compile(r"! |error|(?!columns|next|wrote|\d|.*links join|.*ERM)[^:]+: ")
"""What differs between equal runs, files that are no results, and lines that say what is odd."""


class End:
    """How a command or function ended."""

    def __init__(self, status: int, text: str, result: Any = None) -> None:
        self.status, self.result, self.lines = status, result, text.splitlines()
        odd = filter(NOTE.match, self.lines)
        self.notes = {re.sub(r"\S*\d\S*", "", line) for line in odd}
        errors = [line for line in self.lines if re.match("error|internal|Traceback", line)]
        plain = status in (0, 1, 2) and all(line.startswith("error:") for line in errors)
        silent = "it failed and said nothing" if status and not self.notes else ""
        self.wrong = silent if plain else f"status {status}: {(errors or self.lines)[-1:]}"


def run(act: list[str] | Callable[[], Any]) -> End:
    """Run a command, or a function, in the working folder."""
    out, status, result = io.StringIO(), 0, None
    signal.alarm(SECONDS)
    tell_changed.cache_clear()  # it tells each edited file once in a process
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
        try:
            if callable(act):
                result = act()
            elif act[0] == "save":
                fit(good()).save(act[1])
            elif act[0] == "load":
                print(graphgym_srnc.load(act[1]).predict_proba(Data(**good())).tolist())
            else:
                status = command(act)
        except InputError as error:
            status, _ = 2, print(f"error: {error}")
        except SystemExit as error:
            status = error.code
        except (Exception, KeyboardInterrupt) as error:
            status, _ = 70, print(f"\nTraceback {type(error).__name__}: {error}")
    signal.alarm(0)
    return End(status, out.getvalue(), result)


def fit(fields: dict[str, Any]) -> graphgym_srnc.ERM:
    return graphgym_srnc.ERM(hidden=4, steps=1, rounds=0).fit(Data(**fields))


# ---- the folder in which commands run ----


def prepare(root: Path) -> None:
    """Make a folder of inputs and results, and a copy of it; it becomes the working folder."""
    shutil.rmtree(root.parent, ignore_errors=True)
    root.mkdir(parents=True)
    os.chdir(root)
    os.environ["GRAPHGYM_SRNC_CACHE"] = str(root / "cache")
    os.environ["KMP_INIT_AT_FORK"] = "FALSE"  # a library sets it later, and records contain it
    Path("grid.txt").write_text("gnn.dim_inner d [4,8]\n", encoding="utf-8")
    for name in ("graph.pt", "graph.npz", "hetero.pt"):
        save(Path(name), good())
    for line in COMMANDS[:-1]:
        end = run(line.replace("#", "1").split())
        assert end.status == 0, (line, end.lines)
    places = itertools.count(20, 5)
    while not Path("out/stopped/0/checkpoint.safetensors").exists():
        killed(COMMANDS[-1].split(), next(places))
    shutil.copytree(root, "../first")


def restore() -> None:
    """Make the working folder what it was."""
    for path in sorted(Path().rglob("*"), reverse=True):
        if not Path("../first", path).exists():
            path.rmdir() if path.is_dir() else path.unlink()

    def copy(old: str, new: str) -> None:
        if not os.path.exists(new) or os.stat(new).st_mtime_ns != os.stat(old).st_mtime_ns:
            shutil.copy2(old, new)

    shutil.copytree("../first", ".", copy_function=copy, dirs_exist_ok=True)


def contents() -> dict[str, str]:
    """A digest of each result, and of each folder that is replaced as a whole."""
    found: dict[str, str] = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file() and not HIDDEN.search(str(path)):
            found[unit(path)] = found.get(unit(path), "") + digest(path, path.stat().st_mtime_ns)
    return found


@functools.lru_cache(1000)
def digest(path: Path, changed: int) -> str:
    content = path.read_bytes()
    if path.suffix in (".pt", ".safetensors"):  # without the length of the header and its padding
        content = content[8:].replace(b" ", b"")
    return path.name + hashlib.sha256(CHANGING.sub(b"", content)).hexdigest()


def unit(path: Path) -> str:
    return str(path) if path.parts[0] == "out" else path.parts[0]


# ---- flips, disk faults, kills ----

OPERATIONS = "open os.rename os.mkdir os.rmdir os.remove os.listdir os.scandir fsync".split()
watcher: list[Callable[[int, str], Any]] = []
numbers = itertools.count(1)
"""What is called before each file operation in the working folder, with number and path."""


def audit(event: str, args: Any) -> None:
    if watcher and event in OPERATIONS and isinstance(args[0], (str, bytes, os.PathLike)):
        path = os.path.relpath(os.fsdecode(args[0]))
        if not path.startswith(".."):
            watcher[0](next(numbers), path)


def run_watched(words: list[str], watch: Callable[[int, str], Any]) -> End:
    global numbers
    numbers, watcher[:] = itertools.count(1), [watch]
    end = run(words)
    watcher.clear()
    return end


def killed(words: list[str], place: int = 0, late: float = 0) -> End:
    """Run a command in a process that dies at a file operation, or else after some seconds."""
    child = os.fork()
    if not child:
        run_watched(words, lambda now, path: now == place and os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    if not place:
        time.sleep(late)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return End(2, "error: killed")


def failing(draw: random.Random, words: list[str], place: int) -> End:
    """Run a command with an error at an operation, or with files that cannot grow from it on."""
    code, lasting = draw.choice((0, errno.ENOSPC, errno.EIO, errno.EACCES)), draw.random() < 0.5
    limit, before = int(2 ** draw.uniform(0, 16)), resource.getrlimit(resource.RLIMIT_FSIZE)

    def fail(now: int, path: str) -> None:
        if now == place or lasting and now > place:
            if code:
                raise OSError(code, os.strerror(code), path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

    end = run_watched(words, fail)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return end


def faults(part: str) -> Callable:
    """Trials of commands with a fault."""
    before, known = contents(), []
    for line in COMMANDS[3:]:
        words, seen = line.replace("#", "1" if part == "flips" else "2").split(), {}
        run(words)  # what it keeps in this process does not change the other calls
        restore()
        begin = time.monotonic()
        end = run_watched(words, seen.__setitem__)
        assert end.status == 0, (line, end.lines)
        old = [Path("../first", path) for path in sorted({*seen.values()})]
        files = [
            path.relative_to("../first") for path in old if path.is_file() and path.stat().st_size
        ]
        if part != "flips" or files and words[:3] != MAKE.split()[:3]:
            known.append((words, end, contents(), files, len(seen), time.monotonic() - begin))
        restore()

    def trial(number: int, draw: random.Random) -> tuple[str, str, str]:
        words, usual, right, files, length, seconds = known[number % len(known)]
        place, path = draw.randint(1, length), draw.choice(files or [Path()])
        what = f"operation {place} of {length} of {' '.join(words[:4])}"
        if part == "flips":
            what = f"a bit of {path} for {' '.join(words[:4])}"
            content = bytearray(path.read_bytes())
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            path.write_bytes(content)
            end = run(words)
        elif part == "disk":
            end = failing(draw, words, place)
        else:
            end = killed(words, place * (number // len(known) % 2), draw.uniform(0, seconds))
        for name in before:
            atomic.restore(Path(name))  # as the next command that reads a folder does
        now, told, why = contents(), end.notes - usual.notes, end.wrong
        names = {*now, *right, *before} - ({unit(path)} if part == "flips" else set())
        equal = all(now.get(name) == right.get(name) for name in names)
        if right == before and not end.status:
            equal &= end.lines == usual.lines
        if not (end.status or equal or told):
            other = {name for name in names if now.get(name) != right.get(name)}
            why = why or f"another result without a note: {other or end.lines[-3:]}"
        for name in names:
            is_odd = now.get(name) not in (before.get(name), right.get(name))
            if is_odd and not (told and name in now):
                why = why or f"{name} is lost or changed"
        if part != "flips":
            again, damaged = run(words), part == "kills" and run(["check", "out"]).status
            other = {name for name, _ in contents().items() ^ right.items()}
            if again.status or damaged or other:
                why = why or f"not the same when repeated: {other or again.lines[-3:]}"
        restore()
        outcome = "refused" if end.status else "harmless" if equal else "told"
        return words[0], "WRONG" if why else outcome, f"{what}: {why}"

    return trial


# ---- inputs ----

IDS = "k{}/{}/00{}/1000000000000000{:03}/-{}/@k{}/=k{}/é {}/{}.0/a,{}".split("/")
CLASSES = [*map(str.split, "x y z/1 2 3/1.0 2.0 3.0/b, é ~".split("/")), [1.0, 2.0, 3.0]]
MISSING = ["", None, "nan", "N/A", "unknown", "?", "unlabeled", "-1"]
NASTY = """0 -1 2.5 1e999 nan -inf 0x10 1_000 True null ~ [1] [-1,'a'] {a:1} *a &a[x] # , " ; =1+1
<script> ../../x /nowhere/x 999999999999999999999999999999 erm cora adam auto relu Ω""".split()
NASTY += ["", "a b", "\n", ": ", "\x1b[31m", "é" * 300, "[" * 3000, "x" * 5000]
NASTY += ["!!python/object/apply:os.mkdir [../ran]"]
"""Forms of ids, of classes and of no class, and texts that break something somewhere."""

SAME_TABLES: dict[str, Callable] = {
    "shuffled links": lambda d, n, e: (n, e.sample(frac=1)),
    "links twice": lambda d, n, e: (n, pd.concat([e, e[:3]])),
    "nodes twice": lambda d, n, e: (pd.concat([n, n[:3]]), e),
    "columns of nodes in another order": lambda d, n, e: (n[d.sample(list(n), 5)], e),
    "target before source": lambda d, n, e: (n, e[["target", "source"]]),
    "a weight first": lambda d, n, e: (n, e.assign(kg=0.5)[["kg", "source", "target"]]),
    "an index of links": lambda d, n, e: (n, e.reset_index(names=d.choice(["", "row"]))),
    "an index of nodes": lambda d, n, e: (n.reset_index(names=""), e),
    "names and numbers of nodes": lambda d, n, e: (n.assign(Label=n.key, no=range(30)[::-1]), e),
}
BAD_TABLES: dict[str, Callable] = {
    "a node less": lambda d, n, e: (n[1:], e),
    "a link to nobody": lambda d, n, e: (n, pd.concat([e, e[:1].assign(target="nobody")])),
    "no labels": lambda d, n, e: (n.drop(columns="team"), e),
    "two rows of a node": lambda d, n, e: (pd.concat([n, n[:1].assign(team="z", size=9)]), e),
    "no numbers": lambda d, n, e: (n.assign(size=["1", d.choice(["x", "1e999", "1_0"])] * 15), e),
}
SAME_ARRAYS: dict[str, Callable] = {
    "doubles": lambda d, name, x: x.double(),
    "an array": lambda d, name, x: x.double().numpy(),
    "a list": lambda d, name, x: x.tolist(),
    "sparse": lambda d, name, x: x.to_sparse() if name == "x" else x,
    "a gradient": lambda d, name, x: x.requires_grad_() if name == "x" else x.int(),
}
BAD_ARRAYS: dict[str, Callable] = {
    "a row less": lambda d, name, x: x[:-1],
    "a dimension more": lambda d, name, x: x[None],
    "NaN": lambda d, name, x: x.double() * float("nan"),
    "divided by zero": lambda d, name, x: x.double() / 0,
    "plus 1e20": lambda d, name, x: x.double() + 10.0**20,
    "empty": lambda d, name, x: x.new_zeros(0),
    "complex": lambda d, name, x: x.to(torch.complex64),
    "without memory": lambda d, name, x: x.to("meta"),
    "a pickle": lambda d, name, x: Evil(),
    "an array of pickles": lambda d, name, x: np.array([Evil()], object),
    "a text": lambda d, name, x: d.choice(NASTY),
    "a dictionary": lambda d, name, x: {"a": x},
    "plus 0.5": lambda d, name, x: x.double() + 0.5 if name != "x" else None,
    "two lists": lambda d, name, x: [x.tolist()] * 2,
    "-1 and 1": lambda d, name, x: 2 * x.int() - 1 if name != "x" else "",
    "one number, expanded": lambda d, name, x: torch.zeros(1).expand(10**6, 10**6),
    "one row, expanded": lambda d, name, x: x[:1].expand(10**9, *x.shape[1:]),
    "sparse, outside its shape": lambda d, name, x: torch.sparse_coo_tensor(
        [[0, 10**12]] * 2, torch.ones(2), (30, 4), check_invariants=False
    ),
}
"""Changes that keep a graph, and changes that must not pass without a note: of a random generator
with the tables of nodes and links, or with the name and the value of a field."""

TABLES = "csv tsv csv.gz xlsx parquet json frames networkx node-link.json vis.json".split()
TABLES += "graphml gexf gml net".split()
ARRAYS = ["graph.pt", "data.pt", "graph.npz", "hetero.pt", "fit"]
KINDS = [*TABLES, *TABLES, *ARRAYS, *ARRAYS, "config", "command"]
COLUMNS = {"text": ["title"], "numbers": ["size"], "categories": ["land"]}

Trial = tuple[Any, "list | None", str]
"""What reads an input, its right results (None = unknown), and what was changed."""


class Evil:
    """A pickle that makes a folder when it is loaded."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("../ran",)


def good() -> dict[str, Any]:
    """A graph in the fields of PyG."""
    node = torch.arange(30)
    x = torch.rand(30, 4, generator=torch.Generator().manual_seed(0))
    ends = torch.stack([node.repeat(2), torch.cat([node + 1, node + 4]) % 30])
    masks = {"train_mask": node < 12, "val_mask": (node > 11) & (node < 20), "test_mask": node > 19}
    return {"x": x, "edge_index": ends, "y": node % 3, **masks}


def changed(draw: random.Random, same: dict, bad: dict, *given: Any) -> tuple[Any, str, bool]:
    """What a change makes of something, its name, empty = no change, and if it keeps the graph."""
    way = draw.random()
    ways = same if way < 0.6 else bad
    name = draw.choice([*ways])
    return (None, "", True) if way <= 0.3 else (ways[name](draw, *given), name, way < 0.6)


def tables(draw: random.Random, kind: str, clean: bool) -> Trial:
    """A known graph as tables or as a graph file."""
    node, choose = range(30), (lambda options: options[0]) if clean else draw.choice
    style, classes, missing = choose(IDS), choose(CLASSES), choose(MISSING)
    ids = [v if style == "{}" else style.format(v) for v in node]
    pairs, team = [(v, v - step) for step in (1, 4) for v in node], [classes[v % 3] for v in node]
    links = pd.DataFrame([(ids[a], ids[b]) for a, b in pairs], columns=["source", "target"])
    nodes = pd.DataFrame({"key": ids, "title": [f"word{v % 3} term{v % 5}" for v in node]})
    nodes["size"], nodes["land"] = np.arange(30) / 4, [f"land{v % 4}" for v in node]
    nodes["team"] = pd.Series([team[v] if v % 4 else missing for v in node])
    what, right = f"ids {style}, classes {classes}, missing {missing!r}", None
    if not clean:
        new, how, keeps = changed(draw, SAME_TABLES, BAD_TABLES, nodes, links)
        (nodes, links), what, right = new or (nodes, links), f"{what}, {how}", []
        x = read_clean(kind if kind in ("networkx", "net") else "csv").result[1]
        numbers = {"gml": range(30), "net": range(1, 31)}  # which these formats call ids
        for form in (str, lambda name: str(name).removesuffix(".0")):
            labels = [(v, form(team[v])) for v in node if v % 4 and kind != "net"]
            right += [graph(numbers.get(kind, ids), x, labels, pairs)] * (keeps or kind == "net")
    if kind == "frames":
        read, options = graphgym_srnc.from_frames, {"label": "team", "id": "key", **COLUMNS}
        return lambda: of(read(nodes, links, **options)), right, what
    if kind == "networkx":
        found, options = network(nodes, links), {"label": "team", "features": ["size"]}
        return lambda: of(graphgym_srnc.from_networkx(found, **options)), right, what
    paths = write(kind, nodes, links, choose)
    if not clean and draw.random() < 0.2:
        what += change(draw, draw.choice(paths))
        right = right if kind in ("csv.gz", "xlsx") else None
    options = [f"--{name} {column}" for name, (column,) in COLUMNS.items()] + ["--label team"]
    if kind == "net":  # this format has no columns
        options = ["--label none --categories name"]
    options += ["--id key"] * (len(paths) > 1)
    return lambda: made(f"data make {' '.join(paths + options)} --out new"), right, what


def network(nodes: pd.DataFrame, links: pd.DataFrame) -> nx.Graph:
    found, ends = nx.Graph(), {*links["source"], *links["target"]}
    if not nodes["key"].is_unique or ends - {*nodes["key"]}:
        raise ValueError("networkx merges such nodes, or adds them")
    for row in nodes.to_dict("records"):
        found.add_node(row.pop("key"), **{name: cell for name, cell in row.items() if cell == cell})
    found.add_edges_from(links[["source", "target"]].to_numpy().tolist())
    return found


def write(kind: str, nodes: pd.DataFrame, links: pd.DataFrame, choose: Callable) -> list[str]:
    """Write tables as files of a kind; texts have one of several separators and encodings."""
    paths = [f"../trial/{name}.{kind}" for name in ("nodes", "links")]
    form = {"sep": "\t" if kind == "tsv" else choose(",;\t|"), "quoting": choose([0, 1])}
    form |= {"encoding": choose(["utf-8", "utf-8-sig", "utf-16", "latin-1"]), "index": False}
    form |= {"lineterminator": choose(["\n", "\r\n", "\r"])}
    plain = {"xlsx": ("to_excel", {"index": False}), "parquet": ("to_parquet", {})}
    plain |= {"json": ("to_json", {"orient": "records"}), "csv": ("to_csv", form)}
    plain |= {"tsv": plain["csv"], "csv.gz": plain["csv"]}
    if kind in plain:
        for path, table in zip(paths, (nodes, links)):
            getattr(table, plain[kind][0])(path, **plain[kind][1])
        return paths
    if kind.endswith("json"):
        links = links.rename(columns={"source": "from", "target": "to"} if kind[0] == "v" else {})
        rows, pairs = (json.loads(table.to_json(orient="records")) for table in (nodes, links))
        rows = [{"id": row.pop("key"), **row} for row in rows]
        key = choose(["links", "edges"]) if kind == "node-link.json" else "edges"
        Path(paths[0]).write_text(json.dumps({"nodes": rows, key: pairs}), encoding="utf-8")
    elif kind == "net":
        nx.write_pajek(network(nodes[["key"]].astype(str), links.astype(str)), paths[0])
    else:
        getattr(nx, f"write_{kind}")(network(nodes, links), paths[0])
    return paths[:1]


def change(draw: random.Random, path: str) -> str:
    """Cut a file, or change, drop or insert some of its bytes."""
    content = Path(path).read_bytes()
    begin = draw.randrange(len(content) + 1)
    end = begin + draw.choice((0, 1, 4, 50, len(content)))
    new = draw.choice((b"", draw.choice(NASTY).encode(), bytes([draw.randrange(256)])))
    Path(path).write_bytes(content[:begin] + new + content[end:])
    return f", bytes {begin} to {end} are {new[:20]!r}"


def arrays(draw: random.Random, kind: str, clean: bool) -> Trial:
    """A known graph as arrays, of which one may be odd."""
    fields, right, what, path = good(), None, "", f"../trial/{kind}"
    if not clean:
        name = draw.choice([*fields])
        value = fields[name]
        new, what, keeps = changed(draw, SAME_ARRAYS, BAD_ARRAYS, name, value)
        right = [read_clean(kind).result] if keeps else []
        fields[name], what = new if what else value, f"{name}: {what}"
    if kind == "fit":
        return lambda: ("", fit(fields).predict_proba(Data(**good()))), right, what
    save(Path(path), fields)
    what += change(draw, path) if not clean and draw.random() < 0.2 else ""
    words = f"data make {path} {HETERO} new" if kind == "hetero.pt" else f"{SHOW} {path}"
    return lambda: made(words), right, what


def save(path: Path, fields: dict[str, Any]) -> None:
    """Write a graph as the kind of file that its name says."""
    if path.suffix == ".npz":
        values = {name: np.asarray(value) for name, value in fields.items()}
        if sum(value.nbytes for value in values.values()) > 10**6:
            raise ValueError("NumPy would write them all")
        return np.savez(path, **values)
    data: Any = Data(**fields) if path.name == "data.pt" else fields
    if path.name == "hetero.pt":
        data = HeteroData(author={"num_nodes": 30}, paper={**fields, "edge_index": None})
        data["paper", "by", "author"].edge_index = fields["edge_index"]
    torch.save(data, path)


def made(words: str) -> tuple:
    """Run a command; the graph folder ``new`` that it makes, or the fingerprint that it prints."""
    if status := command(words.split()):
        raise SystemExit(status)
    if "--out" not in words:
        return re.findall(r"fingerprint +(\w+)", sys.stdout.getvalue())[-1], 0
    new, found = Path("new"), {"labels": []}
    for file in new.glob("*.csv"):
        found[file.stem] = pd.read_csv(file, dtype=str, keep_default_na=False).to_numpy()
    dense = new / "features.npy"
    x = np.load(dense) if dense.exists() else sp.load_npz(new / "features.npz").toarray()
    shutil.rmtree(new)
    return graph([row[0] for row in found.get("nodes", ())], x, found["labels"], found["edges"])


def of(data: Data) -> tuple:
    """The graph of a ``Data``."""
    labels = [getattr(label, "item", lambda label=label: label)() for label in data.y]
    named = [(node, label) for node, label in enumerate(labels) if data.train_mask[node]]
    return graph(data.ids, data.x.numpy(), named, data.edge_index.T)


def graph(ids: Any, x: Any, labels: Any, links: Any) -> tuple:
    """A graph without the order of its links and features: a text, and an array of features."""
    x = np.asarray(x, float)
    pairs = {tuple(sorted((int(a) % len(x), int(b) % len(x)))) for a, b in links}
    named = [(int(node), str(label)) for node, label in labels]
    return repr(([*map(str, ids)], named, sorted(pairs))), x[:, np.lexsort(x)]


def others(draw: random.Random, kind: str, clean: bool) -> Trial:
    """A config and a grid file of which one has errors, or a command with odd words."""
    if kind == "command":
        words = draw.choice(COMMANDS).replace("#", "2").split()
        options = re.findall(r"--[\w-]+|\w+\.\w+", " ".join(COMMANDS))
        for _ in range(draw.randint(1, 3)):
            words.insert(draw.randint(1, len(words)), draw.choice(draw.choice((options, NASTY))))
        return words, None, str(words)
    paths = ["../trial/a.yaml", "../trial/a.txt"]
    for path in paths:
        shutil.copy(draw.choice(sorted(config_root().rglob(f"*{Path(path).suffix}"))), path)
    what = "" if clean else change(draw, draw.choice(paths))
    return ["grid", "--cfg", paths[0], "--grid", paths[1], "--dry-run"], None, what


MAKERS = dict.fromkeys(TABLES, tables) | dict.fromkeys(ARRAYS, arrays)


@functools.cache
def read_clean(kind: str) -> End:
    """Read an input of a kind that has no error."""
    return run(MAKERS.get(kind, others)(random.Random(0), kind, True)[0])


def inputs(part: str) -> Callable:
    """Trials of files and arguments."""
    before = contents()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, -1))

    def trial(number: int, draw: random.Random) -> tuple[str, str, str]:
        kind, why = KINDS[number % len(KINDS)], ""
        shutil.rmtree("../trial", ignore_errors=True)
        os.mkdir("../trial")
        usual, equal = read_clean(kind).notes, False
        np.random.seed(number)
        try:
            act, right, what = MAKERS.get(kind, others)(draw, kind, False)
        except (ValueError, TypeError, LookupError, RuntimeError, nx.NetworkXError):
            return kind, "refused", ""  # by the library that writes the file
        end = run(act)
        told, now = end.notes - usual, contents()
        for text, array in right or () if end.result else ():
            same = end.result[0] == text and np.shape(end.result[1]) == np.shape(array)
            equal |= same and np.allclose(end.result[1], array, atol=1e-4)
        if any(now.get(name) != before[name] for name in before):
            why = "it changed a file" if end.status or kind != "command" else ""
        if right is not None and not (equal or told or end.status):
            why = "another result without a note"
        why = "code of the file ran" if Path("../ran").exists() else end.wrong or why
        if now != before:
            restore()
        outcome = "refused" if end.status else "harmless" if equal else "told" if told else "read"
        return kind, "WRONG" if why else outcome, f"{what}: {why}"

    return trial


# ---- the program ----


def in_this_process(jobs: Any, execute: Callable, *rest: Any) -> Any:
    """Run the jobs of a grid where faults meet them."""
    for job in jobs:
        yield Outcome(job, *attempt(functools.partial(execute, job)))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Count what happens with faults.")
    parser.add_argument("parts", nargs="*", help=f"{', '.join(TRIALS)} (default: all)")
    parser.add_argument("--trials", type=int, help="trials of each part")
    parser.add_argument("--only", type=int, metavar="N", help="run trial N only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out-dir", type=Path, default=Path("results", "faults"))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("always", "", RuntimeWarning, __name__)
    warnings.showwarning = lambda message, *_: print(f"warning: {message}")
    local.run, worker._release_memory = in_this_process, lambda: None
    local.warm = lambda execute, *_: contextlib.nullcontext(lambda jobs: local.run(jobs, execute))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.addaudithook(audit)
    fsync = os.fsync
    os.fsync = lambda handle: (audit("fsync", ["."]), fsync(handle))[1]
    wrong = 0
    prepare(args.out_dir.absolute() / "place" / "here")
    for part in args.parts or TRIALS:
        restore()
        begin, found = time.monotonic(), []
        trial = inputs(part) if part == "inputs" else faults(part)
        for number in range(args.trials or TRIALS[part]) if args.only is None else [args.only]:
            found.append(trial(number, random.Random(f"{args.seed} {part} {number}")))
            if found[-1][1] == "WRONG":
                print(f"{part} {number}, {found[-1][0]}: {found[-1][2][:600]}", flush=True)
        print(f"\n{part}, seed {args.seed}, {time.monotonic() - begin:.0f} s\n")
        print(f"| kind | {' | '.join(OUTCOMES)} | trials |\n|---|{'---:|' * (len(OUTCOMES) + 1)}")
        kinds, outcomes, _ = zip(*found)
        for kind in [*dict.fromkeys(kinds), "all"]:
            own = [outcome for one, outcome in zip(kinds, outcomes) if kind in (one, "all")]
            print(f"| {kind} | {' | '.join(map(str, (*map(own.count, OUTCOMES), len(own))))} |")
        wrong += outcomes.count("WRONG")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

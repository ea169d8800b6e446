"""What becomes of damaged files, of nonsense, and of commands whose disk fails: counted trials.

    python benchmarks/faults.py                       # 10,000 flips, 10,000 inputs, 3,000 faults
    python benchmarks/faults.py disk --trials 200     # one part, fewer trials

A trial is ``refused`` (in one line, by name), ``harmless`` (the same numbers), ``told`` (a line
says so, and the command goes on) or WRONG: other numbers without a word, more than a line, a file
that is lost or half written, a command that does not work again. Each trial is drawn from the
seed, its part and its number, so that it can be looked at again. The exit status is 1 if any is
WRONG. Everything is made anew in ``--out-dir``.
"""
from __future__ import annotations

import argparse
import builtins
import contextlib
import errno
import io
import os
import random
import resource
import shutil
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import _commands as commands
import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

import graphgym_srnc
from graphgym_srnc import cache, store
from graphgym_srnc.data import datasets, files, names
from graphgym_srnc.errors import InputError
from graphgym_srnc.grid import space
from graphgym_srnc.gym import load_config
from graphgym_srnc.own.tables import hetero
from graphgym_srnc.report import check
from graphgym_srnc.runs import checkpoint
from graphgym_srnc.runs import model as run_models
from graphgym_srnc.settings import config_root, flatten, leaves, plain_yaml
from graphgym_srnc.text import tell_changed

COUNTS = {"flips": 10_000, "inputs": 10_000, "disk": 3_000}
OUTCOMES = ("refused", "harmless", "told", "WRONG")
SHOWN = 20
"""Wrong trials that are described."""


class Table:
    """Outcomes by kind, and what went wrong."""

    def __init__(self, outcomes: Sequence[str] = OUTCOMES) -> None:
        self.outcomes = outcomes
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.wrong: list[str] = []

    def add(self, kind: str, number: int, outcome: str, why: str = "") -> None:
        self.counts[kind][outcome] += 1
        if outcome == "WRONG":
            self.wrong.append(f"{kind}, trial {number}: {why}")

    def __str__(self) -> str:
        lines = [f"| {'kind':24} | trials | {' | '.join(f'{name:>8}' for name in self.outcomes)} |",
                 f"|{'-' * 26}|-------:|" + "|".join(["---------:"] * len(self.outcomes)) + "|"]
        rows = [*sorted(self.counts.items()), ("all", sum(self.counts.values(), Counter()))]
        for kind, counts in rows:
            cells = " | ".join(f"{counts[name]:8,}" for name in self.outcomes)
            lines.append(f"| {kind:24} | {counts.total():6,} | {cells} |")
        return "\n".join([*lines, *self.wrong[:SHOWN]])


# ---- flips ----

class Kind(NamedTuple):
    """Files of a kind, and what reads one of them: its numbers, or an ``InputError``."""

    files: list[Path]
    read: Callable[[Path], Any]


def kinds(root: Path) -> dict[str, Kind]:
    """Every kind of file that is read back."""
    for words in (commands.WRITING["grid"], commands.WRITING["tune"], commands.WRITING["run"]):
        assert commands.run(words).status == 0
    graph = Data(**files.tensors(files.load(root / "own")[0], ("x", "edge_index"), "own"))
    _write_data(root, graph)
    _cut_off(root)
    cached = cache.memoise("flips", lambda: {"x": torch.arange(9.0)}, (1,))
    assert len(cached) == 1
    out = root / "out"

    def found(*patterns: str) -> list[Path]:
        paths = [path for pattern in patterns for path in sorted(root.glob(pattern))]
        assert paths, patterns
        return paths

    def whole(path: Path) -> Any:
        report = check.check(out / path.relative_to(out).parts[0])
        told = [finding for finding in report.findings if finding.path == path]
        for finding in told:
            raise InputError("DIR", str(path), finding.reason)
        content = path.read_bytes()
        if path.name == "run.json":
            return sorted(part for part in content.split(b'"') if len(part) == 64)
        return plain_yaml(content.decode()) if path.name == "config.yaml" else content

    return {
        "model of a run": Kind(found("out/mine/0/model.pt"),
                               lambda path: numbers(run_models.load(path.parent).predict(graph))),
        "saved estimator": Kind(found("estimator.pt"), lambda path: graphgym_srnc.load(
            path).predict_proba(commands.task().target).tolist()),
        "result.json": Kind(found("out/new/*/result.json", "out/mine/*/result.json"), record),
        "record of a grid": Kind(found("out/g/*/*/result.json"), record),
        "record of a tuning": Kind(found("out/t/trials/*/*/result.json"), record),
        "config that tune chose": Kind(found("out/t/tuned/*.yaml"),
                                       lambda path: flatten(load_config(path))),
        "grid that tune chose": Kind(found("out/t/tuned.txt"), space.read),
        "config.yaml": Kind(found("out/new/config.yaml"), whole),
        "run.json": Kind(found("out/new/*/run.json", "out/mine/*/run.json"), whole),
        "aggregate": Kind(found("out/new/agg/*/*.json", "out/mine/0/*/stats.json"), whole),
        "event file": Kind(found("out/mine/*/events*", "out/mine/mean/events*"), whole),
        "picture": Kind(found("out/mine/0/figures/*.png"), whole),
        "checkpoint": Kind(found("out/cut/0/checkpoint.pt"), _checkpoint),
        "parsed graph": Kind(found("parsed.pt"), _parsed),
        "cached result": Kind(sorted(cache.cache_folder().rglob("*.pt"))[-1:], lambda path: numbers(
            [cache.memoise("flips", lambda: {"x": torch.arange(9.0)}, (1,))["x"]])),
        "graph folder": Kind(found("own/*"), lambda path: (
            numbers(files.load(root / "own")[0].values()), names.of_folder(root / "own"),
            files.load(root / "own")[1])),
        "graph .npz": Kind(found("graph.npz", "packed.npz"),
                           lambda path: numbers(files.load(path)[0].values())),
        "graph .pt": Kind(found("graph.pt"),
                          lambda path: numbers(files.load(path)[0].values())),
        "heterogeneous .pt": Kind(found("hetero.pt"),
                                  lambda path: numbers(hetero.read_pt(path).to_dict())),
    }


def numbers(value: Any) -> Any:
    """Tensors, arrays and matrices as lists, wherever they are."""
    if hasattr(value, "indptr"):
        value = [value.shape, value.indptr, value.indices, value.data]
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__dataclass_fields__"):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(key): numbers(part) for key, part in value.items()}
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return value
    return [numbers(part) for part in value]


def record(path: Path) -> store.Result:
    result = store.read_result(path.parent)
    if result is None:
        raise InputError("result.json", str(path), str(store.problem_of(path.parent)))
    return result


def flip(kind: Kind, draw: random.Random, path: Path, expected: Any) -> tuple[str, str]:
    """Change a bit of a file, read it, and put it back."""
    whole = path.read_bytes()
    place, bit = draw.randrange(len(whole)), draw.randrange(8)
    content = bytearray(whole)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    tell_changed.cache_clear()
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            found = kind.read(path)
    except InputError:
        return "refused", ""
    except Exception as error:
        return "WRONG", f"{path.name}, bit {bit} of byte {place}: {type(error).__name__}: {error}"
    finally:
        if path.exists() or path.parent.is_dir():
            path.write_bytes(whole)
    if err.getvalue():
        return "told", ""
    if repr(found) == repr(expected):
        return "harmless", ""
    return "WRONG", f"{path.name}, bit {bit} of byte {place}: other numbers without a word"


def flips(table: Table, trials: int, seed: int, root: Path) -> None:
    """Bits of stored files."""
    every = kinds(root)
    expected = {name: {path: kind.read(path) for path in kind.files}
                for name, kind in every.items()}
    for number in range(trials):
        name = [*every][number % len(every)]
        draw = random.Random(f"{seed} flips {number}")
        path = draw.choice(every[name].files)
        table.add(name, number, *flip(every[name], draw, path, expected[name][path]))


def _write_data(root: Path, graph: Data) -> None:
    """The same graph in other containers, one of them of two types of nodes."""
    arrays = {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy(),
              "y": np.arange(graph.num_nodes) % 3}
    np.savez(root / "graph.npz", **arrays)
    np.savez_compressed(root / "packed.npz", **arrays)
    torch.save(Data(x=graph.x, edge_index=graph.edge_index, y=torch.from_numpy(arrays["y"])),
               root / "graph.pt")
    data = HeteroData()
    data["paper"].x, data["author"].num_nodes = torch.rand(20, 3), 9
    data["paper", "by", "author"].edge_index = torch.stack([torch.arange(20), torch.arange(20) % 9])
    torch.save(data, root / "hetero.pt")
    datasets._store_parsed(graph, root / "parsed.pt")


def _cut_off(root: Path) -> None:
    """A run that was stopped before its result, with its checkpoint."""
    words = ["run", "--name", "cut", "--out-dir", "out", "--no-figures", *commands.TINY,
             "erm.rounds", "3", "train.max_episodes", "3", "train.checkpoint", "1"]
    finish, store.Experiment.finish = store.Experiment.finish, None
    try:
        commands.run(words)
    finally:
        store.Experiment.finish = finish
    assert (root / "out" / "cut" / "0" / "checkpoint.pt").is_file()


def _checkpoint(path: Path) -> str:
    try:
        return repr(checkpoint.unpack(path.read_bytes()))
    except Exception as error:
        raise InputError("checkpoint", str(path), "a whole file") from error


def _parsed(path: Path) -> list:
    data = datasets._load_parsed(path)
    if data is None:
        raise InputError("cache", str(path), "a whole file")
    return numbers(data.to_dict().values())


# ---- inputs ----

VALUES = ["", "0", "1", "-1", "2.5", "1e999", "nan", "-inf", "9" * 30, "0x10", "007", "1_000",
          "True", "false", "yes", "null", "~", "[]", "[1]", "[1,2]", "[-1,'a']", "{}", "{a: 1}",
          "*a", "&a [x]", "!!python/object/apply:os.system [true]", "\0", "\x1b[31m", "é" * 300,
          "../../x", "/etc/passwd", "=1+1", "<script>", "a b", "[" * 3000, "x" * 5000, "erm",
          "srnc", "gcnconv", "cora", "standard", "adam", "auto", "cuda", "relu", "\n", ": ", "#"]

USES = ["compare out", "check out", "report out --out new.html", "predict out/mine --out new.csv",
        "data make tables/nodes.csv tables/edges.csv --out new", "data example new",
        "grid --grid grid.txt --dry-run", "options", "data show --cfg testing/erm",
        "discover out/new"]
OPTIONS = ("--metric --split --by --columns --select --against --test --alpha --paper --format "
           "--figure --title --graph --features --id --label --text --numbers --max-words --nodes "
           "--seed --sample --repeat --jobs --name --cfg --out-dir --top --clusters").split()


def inputs(table: Table, trials: int, seed: int, root: Path) -> None:
    """Keys, values, configs, grid files and words of the command line."""
    keys = sorted(flatten(load_config()))
    configs = [path.read_text(encoding="utf-8") for path in sorted(config_root().rglob("*.yaml"))]
    grids = [path.read_text(encoding="utf-8") for path in sorted(config_root().rglob("*.txt"))]
    before = commands.contents(root)
    for number in range(trials):
        draw = random.Random(f"{seed} inputs {number}")
        kind = ("words", "config", "words", "config", "grid file")[number % 5]
        if number % 25 == 0:
            kind = "command"
            outcome = _command(draw, root, before)
        elif kind == "words":
            key = draw.choice(keys) if draw.random() < 0.9 else draw.choice(VALUES)
            value = draw.choice(VALUES)
            outcome = _accepted(lambda words=[key, value]: load_config(None, words), {key: value})
        else:
            text = _mutated(draw, draw.choice(configs if kind == "config" else grids))
            path = root / ("a.yaml" if kind == "config" else "a.txt")
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            try:
                said = dict(leaves(plain_yaml(text) or {})) if kind == "config" else {}
            except (ValueError, AttributeError):
                said = {}
            read = load_config if kind == "config" else space.read
            outcome = _accepted(lambda read=read, path=path: read(path), said)
            path.unlink()
        table.add(kind, number, *outcome)


def _accepted(read: Callable[[], Any], said: dict[str, Any]) -> tuple[str, str]:
    """Whether settings are refused, or all that was said is in what was read."""
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            found = read()
    except InputError as error:
        return ("refused", "") if str(error) else ("WRONG", "an error without a word")
    except Exception as error:
        return "WRONG", f"{said}: {type(error).__name__}: {error}"[:300]
    if err.getvalue():
        return "told", ""
    got = flatten(found) if said else {}
    blocks = {key.rpartition(".")[0] for key in got}
    for key, value in said.items():
        if key in blocks and value == "":
            continue  # of which nothing is said
        if key not in got or not _means(value, got[key]):
            return "WRONG", f"{key} {value!r} was taken for {got.get(key)!r}"
    return "harmless", ""


def _means(said: Any, got: Any) -> bool:
    """Whether a text of a config is a value."""
    if isinstance(got, (list, tuple)):
        said = plain_yaml(said) if isinstance(said, str) else said
        return len(said or ()) == len(got) and all(map(_means, said or (), got))
    if isinstance(got, bool):
        return str(said).lower() in (("true", "yes", "on", "1") if got else
                                     ("false", "no", "off", "0"))
    if isinstance(got, (int, float)):
        return type(got)(said) == got or got != got and "nan" in said.lower()
    return str(got) == str(said) or got is None and said in ("", "null", "~", "None")


def _mutated(draw: random.Random, text: str) -> str:
    for _ in range(draw.randint(1, 3)):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.choice((0, 1, 4, 20)))
        way = draw.randrange(4)
        words = text.split()
        if way == 0 and words:
            text = text.replace(draw.choice(words), draw.choice([*words, *VALUES]), 1)
        elif way == 1:
            text = text[:begin] + text[end:]
        elif way == 2:
            text = text[:end] + text[begin:end] + text[end:]
        else:
            text = text[:begin] + draw.choice(VALUES) + text[end:]
    return text


def _command(draw: random.Random, root: Path, before: dict[str, str]) -> tuple[str, str]:
    """A command with words in it that it does not expect; it may write only what is new."""
    words = draw.choice(USES).split()
    for _ in range(draw.randint(1, 3)):
        place = draw.randint(1, len(words))
        words[place:place] = [draw.choice(OPTIONS)] * (draw.random() < 0.6) + [
            draw.choice(VALUES).replace("\0", "0")]
    end = commands.run(words)
    now = commands.contents(root)
    why = end.wrong or commands.lost(before, {name: now[name] for name in now if name in before},
                                     {})
    if not why and end.status and now != before:
        why = "it failed and left something"
    for name in {*now} - {*before}:
        shutil.rmtree(root / Path(name).parts[0], ignore_errors=True)
        (root / name).unlink(missing_ok=True)
    if why:
        return "WRONG", f"{words}: {why}"[:400]
    return "refused" if end.status else "told" if end.err else "harmless", ""


# ---- disk ----

CHANGING = ("open", "fsync", "replace", "rename", "mkdir", "rmdir", "unlink", "remove")
LISTING = ("listdir", "scandir")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)

Act = Callable[[int, str, Callable[[], Any]], None]
"""What happens before an operation, by its number, its name, and what does the half of it."""


class File:
    """A file whose reads and writes count; a write that fails has written the half."""

    def __init__(self, file: Any, step: Callable[..., None]) -> None:
        self.file, self.step = file, step

    def write(self, content: Any) -> int:
        def half() -> None:
            self.file.write(content[:len(content) // 2])
            self.file.flush()
        self.step("write", half)
        return self.file.write(content)

    def read(self, *size: int) -> Any:
        self.step("read")
        return self.file.read(*size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *error: Any) -> None:
        self.file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.file)


@contextlib.contextmanager
def faulty(root: Path, act: Act = lambda number, name, half: None) -> Iterator[list[str]]:
    """Count the operations on files below a folder; ``act`` is called before each."""
    seen: list[str] = []
    originals = {(module, name): getattr(module, name) for module, names in (
        (os, CHANGING + LISTING), (builtins, ("open",)), (io, ("open",))) for name in names}

    def step(name: str, half: Callable[[], Any] = lambda: None) -> None:
        seen.append(name)
        act(len(seen), name, half)

    def inside(path: Any, dir_fd: Any = None) -> bool:
        if isinstance(path, int):
            return False
        return dir_fd is not None or os.path.abspath(os.fspath(path)).startswith(str(root))

    def counted(name: str, function: Callable) -> Callable:
        def wrapped(path: Any = ".", *rest: Any, **options: Any) -> Any:
            if name == "fsync" or inside(path, options.get("dir_fd")):
                step(name)
            return function(path, *rest, **options)
        return wrapped

    def opened(function: Callable) -> Callable:
        def wrapped(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not inside(path):
                return function(path, mode, *rest, **options)
            step("open to write" if {*mode} & {*"wax+"} else "open to read")
            return File(function(path, mode, *rest, **options), step)
        return wrapped

    for (module, name), function in originals.items():
        setattr(module, name, counted(name, function) if module is os else opened(function))
    try:
        yield seen
    finally:
        for (module, name), function in originals.items():
            setattr(module, name, function)


def failing(number: int, kind: int, lasting: bool) -> Act:
    """An error at an operation, or from it on."""
    def act(now: int, name: str, half: Callable[[], Any]) -> None:
        if now == number or lasting and now > number:
            half()
            # The disk is not full for whoever reads.
            code = errno.EIO if kind == errno.ENOSPC and "read" in name else kind
            raise OSError(code, os.strerror(code), name)
    return act


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: a write of any library is short, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def disk(table: Table, trials: int, seed: int, root: Path) -> None:
    """An error at a system call of each command that writes."""
    first = saved(root)
    before = commands.contents(root)
    after, length = {}, {}
    for name, words in commands.WRITING.items():
        commands.run(words)  # what it caches is there from now on
        restore(first, root)
        with faulty(root) as seen:
            end = commands.run(words)
        assert end.status == 0, end
        after[name], length[name] = commands.contents(root), len(seen)
        restore(first, root)
    for number in range(trials):
        draw = random.Random(f"{seed} disk {number}")
        name = [*commands.WRITING][number % len(commands.WRITING)]
        table.add(name, number, *_fault(draw, root, name, length[name], before, after[name]))
        restore(first, root)


def _fault(draw: random.Random, root: Path, name: str, length: int, before: dict[str, str],
           after: dict[str, str]) -> tuple[str, str]:
    words = commands.WRITING[name]
    if draw.random() < 0.15:
        size = int(2 ** draw.uniform(0, 16))
        what = f"files of at most {size} bytes"
        with small_files(size):
            end = commands.run(words)
    else:
        fault = draw.randint(1, length), draw.choice(ERRORS), draw.random() < 0.5
        with faulty(root, failing(*fault)) as seen:
            end = commands.run(words)
        at = seen[fault[0] - 1] if len(seen) >= fault[0] else "nothing"
        what = f"{errno.errorcode[fault[1]]} at {fault[0]} ({at}){', lasting' * fault[2]}"
    now = commands.contents(root)
    free = commands.CHOSEN.get(name, ()) if end.told else ()
    why = end.wrong or commands.lost(before, now, after, free)
    if not why and end.status == 0 and now != after and not end.told:
        why = "it did not do what it was asked for, and said nothing"
    again = commands.run(words)
    if not why and again.status:
        why = f"it does not work again: {again.err[-300:]}"
    if not why and commands.contents(root) != after:
        why = f"other numbers afterwards: {commands.lost(after, commands.contents(root), after)}"
    if why:
        return "WRONG", f"{what}: {why}"
    return "refused" if end.status else "harmless" if now == after else "told", ""


def saved(root: Path) -> Path:
    """A copy of the folder as it is at the beginning."""
    first = root.with_name("first")
    shutil.rmtree(first, ignore_errors=True)
    shutil.copytree(root, first)
    return first


def restore(first: Path, root: Path) -> None:
    """Make a folder what it was at the beginning; it stays the working folder."""
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(first, root, dirs_exist_ok=True)


PARTS = {"flips": flips, "inputs": inputs, "disk": disk}


def serve(doc: str, parts: Mapping[str, Callable[..., None]], counts: Mapping[str, int],
          tables: Callable[[str], Table], argv: list[str] | None = None) -> int:
    """Run parts of a program by the words of its command line; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--trials", type=int, help="of each part (default: as above)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out-dir", type=Path, default=Path("results", Path(sys.argv[0]).stem))
    args = parser.parse_args(argv)
    if {*args.parts} - {*parts}:
        parser.error(f"parts are {', '.join(parts)}")
    status, root = 0, args.out_dir.absolute() / "place"
    for part in args.parts or parts:
        begin, table = sum(os.times()[:4]), tables(part)
        commands.prepare(root)
        parts[part](table, args.trials or counts[part], args.seed, root)
        print(f"{part}, seed {args.seed}, {sum(os.times()[:4]) - begin:.0f} s of a core\n\n{table}"
              "\n", flush=True)
        status |= bool(table.wrong)
    return status


def main(argv: list[str] | None = None) -> int:
    return serve(__doc__, PARTS, COUNTS, lambda part: Table(), argv)


if __name__ == "__main__":
    sys.exit(main())

"""Count what happens with bad files, bad arguments, disk faults and killed processes.

    python benchmarks/faults.py                       # all parts with all trials
    python benchmarks/faults.py disk --trials 200     # one part, fewer trials
    python benchmarks/faults.py inputs --only 4711    # one trial again

``flips`` change a bit of a stored file that a command reads. ``inputs`` are files and arguments
with errors or in unusual forms. ``disk`` lets a file operation of a command fail, and ``kills``
ends a command at one with SIGKILL; after both, the command is run again. ``forged`` changes a value
of a record or of a model, or weights, and gives the file its right checksum. ``races`` replaces a
file that a command reads by a FIFO, or by a symbolic link, at one of its operations.

A trial is refused (an error, or killed), harmless (the right result), told (another result and a
note), read (a result that this program cannot judge) or WRONG: another result without a note, an
internal error, a lost or half-written file, code of a file that ran, a command that fails when it
is repeated, or too much time. The exit status is 1 if a trial is WRONG.
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
from typing import Any, Callable, NamedTuple
from unittest.mock import ANY

import numpy as np
import pandas as pd
import torch

from graphgym_srnc.cli.main import main as command
from graphgym_srnc.core.text import tell_once
from graphgym_srnc.io import atomic, checksums, tensors
from graphgym_srnc.sweep import local, worker
from graphgym_srnc.sweep.jobs import Outcome, attempt

TRIALS = {"flips": 10_000, "inputs": 10_000, "disk": 3_000, "kills": 300}
TRIALS |= {"forged": 2_000, "races": 1_000}
ELSEWHERE = "../elsewhere"  # a file outside the working folder
OUTCOMES = ["refused", "harmless", "told", "read", "WRONG"]

OWN = """--out-dir out --cfg own dataset.name own file.num_val 30 file.num_test 40 gnn.dim_inner 4
train.selection target_val train.mode erm erm.steps 3 erm.rounds 1""".replace("\n", " ")
MAKE = "data make tables/nodes.csv tables/edges.csv --text title --overwrite"
COMMANDS = f"""data example tables --nodes 200 --labelled 0.5 --overwrite
{MAKE} --out own
run --name mine --repeat 2 {OWN}
run --name new --resume --repeat # --no-figures {OWN}
grid --grid grid.txt --resume --name g --repeat # --no-tensorboard --jobs 1 {OWN}
tune --trials # --seeds 100 --name t --jobs 1 {OWN}
predict out/mine --out predicted.csv --overwrite
discover out/mine --clusters 6 --csv found.csv --name 1=new --labels-out named --overwrite
{MAKE} --max-words 5# --out made
data show --cfg own file.num_val 5 file.num_test 5 dataset.name graph.pt
grid --cfg out/t/tuned/erm.yaml --grid out/t/tuned.txt --dry-run
compare out/mine out/new --out table.csv --overwrite
report out/mine --out page.html --overwrite
check out/mine
run --name stopped --resume --no-figures {OWN} train.checkpoint 1""".splitlines()
"""Commands that make older results with # = 1, and meet faults with # = 2; the last was killed."""

CHANGING = re.compile(rb'"(sha256|\w*seconds\w*|time_iter\w*|peak_\w+)\\?": ?[^,}\n]*')
HIDDEN = re.compile(r"(^|/)\.|damaged|error.txt|events|checkpoint|^input|SHA256|tuned.lo")
NOTE = re.compile(r"! |error|(?!columns|next|wrote|\d|.*links join|.*ERM)[^:]+: ")
"""What differs between equal runs, files that are no results, and lines that say what is odd."""

OPERATIONS = "open os.rename os.mkdir os.rmdir os.remove os.listdir os.scandir fsync".split()
watchers: list[Callable[[str], Any]] = []
"""File operations, and what is called with the path before each one in the working folder."""


class End:
    """How a command ended."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.lines = status, text.splitlines()
        self.notes = {re.sub(r"\S*\d\S*", "", line) for line in filter(NOTE.match, self.lines)}
        errors = [line for line in self.lines if re.match("error|internal|Traceback", line)]
        plain = status in (0, 1, 2) and all(line.startswith("error:") for line in errors)
        silent = "it failed and said nothing" if status and not self.notes else ""
        self.wrong = silent if plain else f"status {status}: {(errors or self.lines)[-1:]}"


def run(words: list[str], *watch: Callable[[str], Any]) -> End:
    """Run a command in the working folder."""
    out = io.StringIO()
    signal.alarm(60)  # a trial may take no longer
    tell_once.cache_clear()  # it tells each edited file once in a process
    watchers[:] = watch
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
        try:
            status = command(words)
        except SystemExit as error:
            status = error.code
        except (Exception, KeyboardInterrupt) as error:
            status, _ = 70, print(f"\nTraceback {type(error).__name__}: {error}")
    watchers.clear()
    signal.alarm(0)
    return End(status, out.getvalue())


def audit(event: str, args: Any) -> None:
    if watchers and event in OPERATIONS and isinstance(args[0], (str, bytes, os.PathLike)):
        path = os.path.relpath(os.fsdecode(args[0]))
        if not path.startswith(".."):
            watchers[0](path)


def prepare(root: Path) -> None:
    """Make a folder of inputs and results, and a copy of it; it becomes the working folder."""
    shutil.rmtree(root.parent, ignore_errors=True)
    root.mkdir(parents=True)
    os.chdir(root)
    os.environ["KMP_INIT_AT_FORK"] = "FALSE"  # a library sets it later, and records contain it
    Path("grid.txt").write_text("gnn.dim_inner d [4,8]\n", encoding="utf-8")
    torch.save(TENSORS, "graph.pt")
    for line in COMMANDS[:-1]:
        end = run(line.replace("#", "1").split())
        assert end.status == 0, (line, end.lines)
    places = itertools.count(20, 5)
    while not Path("out/stopped/0/checkpoint.safetensors").exists():
        killed(COMMANDS[-1].split(), next(places))
    shutil.copytree(root, "../first")


def restore() -> None:
    """Make the working folder what it was."""
    for path in Path().iterdir():
        atomic.discard(path)
    shutil.copytree("../first", ".", dirs_exist_ok=True)


def contents() -> dict[str, str]:
    """A digest of each result, and of each folder that is replaced as a whole."""
    found: dict[str, str] = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file() and not HIDDEN.search(str(path)):
            content = path.read_bytes()
            if path.suffix == ".safetensors":  # without the length of the header and its padding
                content = content[8:].replace(b" ", b"")
            name = str(path) if path.parts[0] == "out" else path.parts[0]
            digest = hashlib.sha256(CHANGING.sub(b"", content)).hexdigest()
            found[name] = f"{found.get(name, '')}{path.name} {digest} "
    return found


def killed(words: list[str], place: int) -> End:
    """Run a command in a process that dies at a file operation."""
    child, now = os.fork(), itertools.count(1)
    if not child:
        run(words, lambda path: next(now) == place and os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    os.waitpid(child, 0)
    return End(2, "error: killed")


def failing(draw: random.Random, words: list[str], place: int) -> End:
    """Run a command with an error at an operation or from it on, or with files that cannot grow."""
    code, last = draw.choice((0, errno.ENOSPC, errno.EIO, errno.EACCES)), draw.choice((place, 1e9))
    size, before = int(2 ** draw.uniform(0, 16)), resource.getrlimit(resource.RLIMIT_FSIZE)
    numbers = itertools.count(1)

    def fail(path: str) -> None:
        if place <= next(numbers) <= last:
            if code:
                raise OSError(code, os.strerror(code), path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    end = run(words, fail)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return end


IDS = "k{}/{}/00{}/1000000000000000{:03}/-{}/@k{}/=k{}/é {}/{}.0/a,{}".split("/")
CLASSES = [*map(str.split, "x y z/1 2 3/1.0 2.0 3.0/b, é ~".split("/")), [1.0, 2.0, 3.0]]
MISSING = ["", None, "nan", "N/A", "unknown", "?", "unlabeled", "-1"]
NASTY = """0 -1 2.5 1e999 nan -inf 0x10 1_000 True null ~ [1] [-1,'a'] {a:1} *a &a[x] # , " ; =1+1
<script> ../../x /nowhere/x 999999999999999999999999999999 erm cora adam auto relu Ω""".split()
NASTY += ["", "a b", "\n", ": ", "\x1b[31m", "é" * 300, "[" * 3000, "x" * 5000]
NASTY += ["!!python/object/apply:os.mkdir [../ran]"]
"""Forms of ids, of classes and of no class, and texts that break something somewhere."""

TEXT = {"encoding": ["utf-8", "utf-8-sig", "utf-16", "latin-1"], "quoting": [0, 1]}
TEXT |= {"sep": ",;\t|", "lineterminator": ["\n", "\r\n", "\r"]}
TABLES = {"csv": "to_csv", "xlsx": "to_excel", "parquet": "to_parquet"}
READ = "data make --text title --numbers size --categories land --label team --id key --out new"
NODE = torch.arange(30)
TENSORS = {"x": torch.eye(30), "y": NODE % 3, "edge_index": torch.stack([NODE, NODE.roll(1)])}
Evil = type("Evil", (), {"__reduce__": lambda self: (os.mkdir, ("../ran",))})
"""How frames are written and read, a graph, and a pickle that makes a folder when it is loaded."""


def tables(choose: Callable, kind: str) -> tuple[str, Any]:
    """Write a known graph; how to read it, and its ids, labels and links (None = it has errors)."""
    node, style, classes, missing = range(30), *map(choose, (IDS, CLASSES, MISSING))
    ids = [v if style == "{}" else style.format(v) for v in node]
    pairs = sorted(tuple(sorted((v, (v + step) % 30))) for step in (1, 4) for v in node)
    labels = {v: classes[v % 3] for v in node if v % 4}
    links = pd.DataFrame([(ids[a], ids[b]) for a, b in pairs], columns=["source", "target"])
    nodes = pd.DataFrame({"key": ids, "title": [f"word{v % 3} term{v % 7}" for v in node]})
    nodes["size"], nodes["land"] = np.arange(30) / 4, [f"land{v % 4}" for v in node]
    nodes["team"] = pd.Series([labels.get(v, missing) for v in node])
    forms = [
        (nodes, links),
        (nodes.iloc[[*range(30), 0]], links.iloc[::-1]),
        (nodes[["team", "size", "key", "land", "title"]], links[["target", "source"]]),
        (nodes.reset_index(names=""), links.assign(kg=0.5)[["kg", "source", "target"]]),
        (nodes.assign(Label=ids, no=range(30)[::-1]), links.reset_index(names="row")),
        # The others have errors.
        (nodes[1:], links),
        (nodes, pd.concat([links, links[:1].assign(target="nobody")])),
        (nodes.drop(columns="team"), links),
        (pd.concat([nodes, nodes[:1].assign(team="z", size=9)]), links),
        (nodes.assign(size=["1", choose(["x", "1e999", "1_0"])] * 15), links),
    ]
    form = choose(range(len(forms)))
    paths = [f"input/{name}.{kind}" for name in ("nodes", "links")]
    Path("input").mkdir()
    for path, frame in zip(paths, forms[form]):
        options = {name: choose(values) for name, values in TEXT.items() if "csv" in kind}
        getattr(frame, TABLES[kind])(path, index=False, **options)
    named = {v: str(name).removesuffix(".0") for v, name in labels.items()}
    return f"{READ} {' '.join(paths)}", ([*map(str, ids)], named, pairs) if form < 5 else None


def made() -> tuple:
    """Ids, labels, links and features in the folder ``new``, which is removed."""
    ids, labels, links = (
        pd.read_csv(f"new/{name}.csv", dtype=str, keep_default_na=False).to_numpy()
        for name in ("nodes", "labels", "edges")
    )
    named = {int(node): label.removesuffix(".0") for node, label in labels}
    features = [path.read_bytes() for path in Path("new").glob("features.*")]
    shutil.rmtree("new")
    return [*ids[:, 0]], named, sorted({tuple(sorted(map(int, link))) for link in links}), features


def arrays(draw: random.Random) -> tuple[str, bool]:
    """Write the graph of tensors with one in another form; which, and whether it has errors."""
    name = draw.choice([*TENSORS])
    x = TENSORS[name]
    good = [x.double(), x.double().numpy(), x.tolist(), x.to_sparse() if name == "x" else x.int()]
    bad = [x[:-1], x[None], x.double() / 0, x.double() + 1e20, x.new_zeros(0), x.to("meta"), Evil()]
    bad += [x.to(torch.complex64), torch.zeros(1).expand(10**6, 10**6), draw.choice(NASTY)]
    form = draw.randrange(len(good + bad))
    torch.save(TENSORS | {name: (good + bad)[form]}, "graph.pt")
    return f"form {form} of {name}", form >= len(good)


def damage(draw: random.Random, path: Path, bit: bool) -> str:
    """Change a bit of a file, or cut it, or change, drop or insert some of its bytes."""
    content = path.read_bytes()
    begin = draw.randrange(len(content))
    end = begin + draw.choice((0, 1, 4, 50, len(content)))
    new = draw.choice((b"", draw.choice(NASTY).encode(), bytes([draw.randrange(256)])))
    if bit:
        end, new = begin + 1, bytes([content[begin] ^ 1 << draw.randrange(8)])
    path.write_bytes(content[:begin] + new + content[end:])
    return f"bytes {begin} to {end} of {path} are {new[:20]!r}"


def leaves(tree: Any) -> list[tuple[Any, Any]]:
    """The containers and keys of all values in a nested JSON value."""
    found = []
    if isinstance(tree, (dict, list)):
        for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
            found += [(tree, key), *leaves(value)]
    return found


def forge(draw: random.Random, run: Path) -> str:
    """Change a value of the record, of the model or of its weights, with the right checksums."""
    numbers = [0, -1, 1e308, float("nan"), 10**12, 10**400, True]
    value = draw.choice([*numbers, None, [], {}, [1], "\ud800", *NASTY])
    if draw.random() < 0.5:
        path = run / "result.json"
        tree = json.loads(path.read_text("utf-8"))
        holder, key = draw.choice(leaves(tree))
        holder[key] = value
        path.write_text(json.dumps(tree), "utf-8")
    else:
        path = run / "model.safetensors"
        about, state = tensors.read(path)
        if draw.random() < 0.3:
            key = draw.choice([name for name in state if state[name].is_floating_point()])
            extreme = draw.choice([float("nan"), float("inf"), 1e38])
            state[key] = torch.full_like(state[key], extreme)
        else:
            holder, key = draw.choice(leaves(about))
            holder[key] = value
        tensors.write(path, about, state)
    sums = checksums.read(run) | {path.name: checksums.of_file(path)}
    lines = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    (run / checksums.FILE).write_text(lines, "utf-8")
    return f"{path}: {key} is {str(value)[:40]!r}"


def swap(draw: random.Random, case: Case) -> Callable[[str], Any]:
    """What replaces a file by a FIFO or by a link to a file elsewhere, at an operation."""
    path, place = draw.choice(case.files), draw.randint(1, case.length)
    link = functools.partial(os.symlink, os.path.abspath(ELSEWHERE))
    replace, now = draw.choice((os.mkfifo, link)), itertools.count(1)

    def watch(_: str) -> None:
        if next(now) == place:
            watchers.clear()
            path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path)

    return watch


def foreign(part: str, case: Case, draw: random.Random) -> tuple[str, str]:
    """The outcome of a case with a forged or a swapped file, and what is wrong.

    What it prints is not judged: whoever can write results can write a checksum.
    """
    elsewhere, what, watch = Path(ELSEWHERE), "a swapped file", []
    elsewhere.write_bytes(b"0" * 100)
    if part == "forged":
        what = forge(draw, Path(draw.choice(("out/mine/0", "out/mine/1", "out/new/0"))))
    else:
        watch = [swap(draw, case)]
    end = run(case.words, *watch)
    why = end.wrong
    if elsewhere.read_bytes() != b"0" * 100 or os.path.exists("../ran"):
        why = "a file elsewhere was changed, or code ran"
    restore()
    return "WRONG" if why else "refused" if end.status else "read", f"{what}: {why}"


class Case(NamedTuple):
    """A command or a format of tables, and what it usually does."""

    words: list[str]
    notes: set[str]
    output: Any  # what it prints or makes; ANY where it writes other results
    right: dict[str, str]  # contents of the working folder afterwards
    files: list[Path] = []  # that it reads
    length: int = 0  # number of operations


def cases(part: str) -> list[Case]:
    """What meets faults: commands, and tables for ``inputs``; they have no checksums to flip."""
    found, before = [], contents()
    for line in COMMANDS[3:]:
        again = "1" if part in ("flips", "forged", "races") else "2"
        words, seen = line.replace("#", again).split(), list[str]()
        run(words)  # what it keeps in this process does not change the other calls
        restore()
        end = run(words, seen.append)
        assert end.status == 0, (line, end.lines)
        right, _ = contents(), restore()
        names = [name for name in sorted({*seen}) if part != "flips" or name[:6] != "tables"]
        files = [path for path in map(Path, names) if path.is_file() and path.stat().st_size]
        files = [path for path in files if part != "forged" or path.parts[0] == "out"]
        output = end.lines if right == before else ANY
        if files or part in ("disk", "kills"):
            found.append(Case(words, end.notes, output, right, files, len(seen)))
    for kind in 5 * [*TABLES] if part == "inputs" else ():
        end = run(tables(lambda options: options[0], kind)[0].split())
        found.append(Case([kind], end.notes, made(), before))
        restore()
    return found


def spoil(part: str, case: Case, draw: random.Random) -> tuple[list[str], Any, str]:
    """Change what a command reads; the command, its right output, and what was changed."""
    words, way = [*case.words], draw.random()
    if words[0] in TABLES:
        line, graph = tables(draw.choice, words[0])
        return line.split(), graph and (*graph, case.output[-1]), line
    if part == "inputs" and words[-1] == "graph.pt" and way < 0.8:
        what, has_errors = arrays(draw)
        return words, None if has_errors else case.output, what
    if part == "inputs" and way < 0.5:
        options = re.findall(r"--[\w-]+|\w+\.\w+", " ".join(COMMANDS))
        for _ in range(draw.randint(1, 3)):
            words.insert(draw.randint(1, len(words)), draw.choice(draw.choice((options, NASTY))))
        return words, ANY, " ".join(words)
    what = damage(draw, draw.choice(case.files), part == "flips")
    return words, case.output if part == "flips" else ANY, what


def trial(part: str, case: Case, draw: random.Random) -> tuple[str, str]:
    """The outcome of a case with a fault, and what is wrong."""
    if part in ("forged", "races"):
        return foreign(part, case, draw)
    stored, place = contents(), draw.randint(1, case.length or 1)
    words, output, what = case.words, case.output, f"operation {place} of {case.length}"
    if part in ("flips", "inputs"):
        try:
            words, output, what = spoil(part, case, draw)
        except (TypeError, ValueError):  # of the library that writes the file
            restore()
            return "refused", ""
    before, runs = contents(), {"disk": functools.partial(failing, draw), "kills": killed}
    end = runs[part](words, place) if part in runs else run(words)
    for name in before:
        atomic.restore(Path(name))  # as the next command that reads a folder does
    same = output == (made() if Path("new").exists() else end.lines)
    unknown = part == "inputs" and output is ANY
    now, told, why = contents(), end.notes - case.notes, end.wrong
    names = {name for name in {*now, *case.right, *before} if stored.get(name) == before.get(name)}
    other = {name for name in names if now.get(name) != case.right.get(name)}
    odd = {name for name in other if now.get(name) != before.get(name)}
    if os.path.exists("../ran"):
        why = "code of the file ran"
    if not (end.status or told or unknown) and (other or not same):
        why = why or f"another result without a note: {other or end.lines[-3:]}"
    if (end.status or not unknown) and any(name not in now or not told for name in odd):
        why = why or f"{odd} are lost or changed"
    if part in ("disk", "kills"):
        again, damaged = run(words), part == "kills" and run(["check", "out"]).status
        left = {name for name, _ in contents().items() ^ case.right.items()}
        if again.status or damaged or left:
            why = why or f"not the same when repeated: {left or again.lines[-3:]}"
    restore()
    known = "read" if unknown else "harmless" if same and not other else "told"
    return "WRONG" if why else "refused" if end.status else known, f"{what}: {why}"


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
    local.run, worker._release_memory = in_this_process, lambda: None
    local.warm = lambda execute, *_: contextlib.nullcontext(lambda jobs: local.run(jobs, execute))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.addaudithook(audit)
    fsync = os.fsync
    os.fsync = lambda handle: (audit("fsync", ["."]), fsync(handle))[1]
    prepare(args.out_dir.absolute() / "place" / "here")
    wrong = False
    for part in args.parts or TRIALS:
        known, found, begin = cases(part), [], time.monotonic()
        for number in range(args.trials or TRIALS[part]) if args.only is None else [args.only]:
            case = known[number % len(known)]
            outcome, why = trial(part, case, random.Random(f"{args.seed} {part} {number}"))
            found.append((case.words[0], outcome))
            if outcome == "WRONG":
                print(f"{part} {number}, {case.words[0]}: {why[:600]}", flush=True)
            wrong |= outcome == "WRONG"
        print(f"\n{part}, seed {args.seed}, {time.monotonic() - begin:.0f} s\n")
        counts = pd.crosstab(*map(list, zip(*found)), margins=True, margins_name="all")
        print(counts.reindex(columns=[*OUTCOMES, "all"], fill_value=0).to_string())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""What is computed once: a run cannot tell whether it did so itself.

That holds whatever becomes of the files and whoever else is at them.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.datasets
from test_shifts_temporal import write_arxiv
from torch_geometric.data import Data, InMemoryDataset

from graphgym_srnc.backbones import Graph, dgi
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.core import environment
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import datasets, pyg
from graphgym_srnc.gym import prepare as gym_prepare
from graphgym_srnc.io import atomic, cache
from graphgym_srnc.methods import srgnn

PACKAGE = Path(cache.__file__).parents[1]


class Draw:
    """A function that draws, and counts its calls."""

    def __init__(self, size: int = 5, log: Path | None = None, pause: float = 0.0) -> None:
        self.calls, self.size, self.log, self.pause = 0, size, log, pause

    def __call__(self) -> dict[str, torch.Tensor]:
        self.calls += 1
        if self.log is not None:
            tell(self.log, self.pause)
        # An odd number of normal draws leaves one in the generator for the next call.
        return {
            "table": torch.randn(self.size, 3).T,
            "row": torch.randn(3, dtype=torch.double),
            "ids": torch.randperm(4000)[:4],
        }


def tell(log: Path, pause: float) -> None:
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(pause)


def outcome(call: Callable[[], dict[str, torch.Tensor]], seed: int = 0) -> list[torch.Tensor]:
    """All that a caller may notice: values, the generator afterwards, and what is drawn next."""
    torch.manual_seed(seed)
    values = call()
    return [*(values[name] for name in sorted(values)), torch.get_rng_state(), torch.randn(3)]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.stride() == y.stride() and torch.equal(x, y) for x, y in zip(a, b)
    )


def entries(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


@pytest.fixture
def kept() -> Path:
    """Where results are kept."""
    return cache.cache_folder() / "computed"


def limit(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Keep at most so many bytes."""
    monkeypatch.setenv(cache.LIMIT, f"{size / 2**30:.15f}")


def together(*calls: Callable[[], None]) -> list[int | None]:
    """Run functions in a process each, at the same time; returns how they ended."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot fork")
    processes = [multiprocessing.get_context("fork").Process(target=call) for call in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


# ---- hits are as misses ----


def test_nobody_can_tell_a_hit(kept, monkeypatch):
    draw = Draw()
    cold, warm = (outcome(lambda: cache.memoise("draw", draw, ())) for _ in range(2))
    assert draw.calls == 1 and len(entries(kept)) == 1
    # A part of a tensor is not kept as the whole of it.
    assert (kept / entries(kept)[0]).stat().st_size < 10_000
    monkeypatch.setenv(cache.FOLDER, "off")
    off = outcome(lambda: cache.memoise("draw", draw, ()))
    assert draw.calls == 2 and same(cold, warm) and same(cold, off)
    torch.manual_seed(0)
    assert torch.equal(Draw()()["table"], cold[2]) and torch.equal(torch.get_rng_state(), cold[-2])


def test_all_that_a_result_depends_on_is_in_its_name(kept, monkeypatch):
    x, draw = torch.arange(6.0), Draw()
    csr = Sparse(sp.eye_array(3)).csr
    calls: list[Any] = [
        (),
        x,
        (x,),
        (x, x),
        x + 1,
        -x,
        x.double(),
        x.int(),
        x.view(2, 3),
        x.view(3, 2),
        x.view(2, 3).T.contiguous().T,
        csr,
        2 * csr,
        csr.to_dense(),
        torch.zeros(0),
        torch.zeros(0, 2),
        torch.tensor(1.0),
        1,
        1.0,
        True,
        None,
        "1",
        ("a", "b"),
        ("ab",),
        (("a",), "b"),
        (("a", "b"),),
        {"a": 1},
        {"b": 1},
    ]
    for part in calls:
        outcome(lambda part=part: cache.memoise("draw", draw, part))
    assert draw.calls == len(calls)

    def again(seed: int = 0, name: str = "draw") -> int:
        outcome(lambda: cache.memoise(name, draw, x), seed)
        return draw.calls - len(calls)

    assert again() == 0
    assert again(seed=1) == 1 and again(name="other") == 2
    torch.set_num_threads(2)
    try:
        assert again() == 3
    finally:
        torch.set_num_threads(1)
    versions = environment.versions()
    for target, name, value in (
        (cache, "source_digest", lambda module: "other code"),
        (cache, "_processor", lambda: "another machine"),
        (environment, "versions", lambda: {**versions, "torch": "0"}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            before = draw.calls
            again(), again()
            assert draw.calls == before + 1, name
    assert again() == 6
    with pytest.raises(TypeError, match="object"):
        cache.memoise("draw", draw, (object(),))


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A copy of the package whose files a test may edit."""
    folder = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "PACKAGE", folder)
    return folder


def digest_of(module: str) -> str:
    """The digest that a new process would take."""
    return cache.source_digest.__wrapped__(f"graphgym_srnc.{module}")


@pytest.mark.parametrize(
    "edited, module, counts",
    [
        ("backbones/dgi.py", "backbones.dgi", True),
        ("backbones/sparse.py", "backbones.dgi", True),
        ("data/edges.py", "backbones.dgi", True),
        ("core/options.py", "backbones.dgi", True),
        ("losses/kmm.py", "methods.srgnn", True),
        ("backbones/__init__.py", "methods.srgnn", True),
        ("train/selection.py", "train.trainer", True),
        ("report/render.py", "methods.srgnn", False),
        ("report/page.py", "train.trainer", False),
        ("cli/run.py", "gym.training", False),
        ("losses/kmm.py", "backbones.dgi", False),
        ("methods/pgl.py", "methods.srgnn", False),
        ("api/make.py", "methods.srgnn", False),
        ("__init__.py", "methods.srgnn", False),
    ],
)
def test_code_that_is_imported_counts_and_other_code_does_not(package, edited, module, counts):
    before, file = digest_of(module), package / edited
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\nedited = 1\n", encoding="utf-8")
    assert (digest_of(module) != before) == counts
    file.write_text(text, encoding="utf-8")
    assert digest_of(module) == before


def test_how_imports_are_read(tmp_path, monkeypatch):
    folder = tmp_path / "some"
    (folder / "room").mkdir(parents=True)
    monkeypatch.setattr(cache, "PACKAGE", folder)
    files = {
        "__init__.py": "",
        "a.py": "",
        "b.py": "",
        "hints.py": "",
        "room/__init__.py": "",
        "room/inner.py": "import some.a\n",
        "start.py": """
from typing import TYPE_CHECKING
import numpy
from some import b
if TYPE_CHECKING:
    from some.hints import Hint
def late():
    from some.room.inner import name
""",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    take = cache.source_digest.__wrapped__
    before = take("some.start")
    counted = ("start.py", "b.py", "room/inner.py", "a.py")
    for name in files:
        (folder / name).write_text(files[name] + "x = 1\n")
        assert (take("some.start") != before) == (name in counted), name
        (folder / name).write_text(files[name])
    assert take("some.start") == before


def test_the_code_of_a_function_is_that_of_its_module(monkeypatch):
    asked = []
    monkeypatch.setattr(cache, "source_digest", lambda module: asked.append(module) or "")
    for function in (lambda: {}, partial(dict, {}), partial(partial(Draw())), Draw()):
        cache.memoise("draw", function, ())
    assert asked == [__name__, "builtins", __name__, __name__]


def test_an_error_is_no_result(kept):
    def fail() -> dict[str, torch.Tensor]:
        raise FloatingPointError("loss is nan")

    with pytest.raises(FloatingPointError):
        cache.memoise("draw", fail, ())
    assert not kept.exists()


TINY = [
    "synthetic.num_nodes",
    "200",
    "synthetic.labels_per_class",
    "8",
    "synthetic.num_val",
    "40",
    "synthetic.num_test",
    "60",
    "gnn.dim_inner",
    "8",
]


def records(gym, words: list[str]) -> list[Any]:
    """Every number of a run, weights, predictions, the generator afterwards, and the method."""
    cfg = gym.load_config(None, TINY + words)
    task = gym.build_task(cfg)
    method, record = gym.fit(cfg, task, [])
    history = [(episode.losses, episode.val, episode.test) for episode in record.history]
    weights = {name: value.tolist() for name, value in method.state_dict().items()}
    return [
        history,
        weights,
        torch.get_rng_state().tolist(),
        method.predict(task.target).tolist(),
        method,
    ]


@pytest.mark.parametrize(
    "words, module, name, free, bound",
    [
        (
            ["train.mode", "erm", "erm.steps", "5", "gnn.layer_type", "dgi"],
            dgi,
            "train_infomax",
            ["erm.steps", "4"],
            ["gnn.dim_inner 9", "dataset.normalize row"],
        ),
        (
            ["train.mode", "srgnn", "srgnn.steps", "5", "synthetic.mode", "close_set"],
            srgnn,
            "kmm_weights",
            ["srgnn.weight", "0.5"],
            [
                "gnn.dim_inner 9",
                "srgnn.b_min 0.3",
                "srgnn.hops 1",
                "srgnn.kernel_dim 7",
                "srgnn.kernel_nodes 20",
            ],
        ),
    ],
)
def test_a_run_is_the_same_without_cold_and_warm(
    gym, monkeypatch, words, module, name, free, bound
):
    monkeypatch.setattr(srgnn, "CACHED_FROM", 0)
    with monkeypatch.context() as patch:
        patch.setenv(cache.FOLDER, "off")
        off = records(gym, words)
    cold = records(gym, words)
    monkeypatch.setattr(module, name, lambda *args, **options: pytest.fail("computed twice"))
    warm = records(gym, words)
    assert off[:4] == cold[:4] == warm[:4]
    trained = [[weight.requires_grad for weight in run[4].parameters()] for run in (cold, warm)]
    assert trained[0] == trained[1]
    assert records(gym, [*words, *free])[0] != off[0]
    for change in ("seed 1", "synthetic.split_seed 1", *bound):
        with pytest.raises(pytest.fail.Exception, match="computed twice"):
            records(gym, [*words, *change.split()])


def test_small_problems_are_solved_again(gym, monkeypatch):
    monkeypatch.setattr(cache, "memoise", lambda *args: pytest.fail("not worth a file"))
    records(gym, ["train.mode", "srgnn", "srgnn.steps", "1", "synthetic.mode", "close_set"])


def test_content_of_a_graph():
    data = Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    graph = Graph(data)

    def digest(graph: Graph) -> str:
        return cache._digest(graph.content)

    assert digest(graph) == digest(
        Graph(Data(x=data.x.clone(), edge_index=data.edge_index.flip(0), y=torch.zeros(4)))
    )
    others = [
        graph.reweighted(np.full(6, 0.5, np.float32)),
        Graph(data, "l2"),
        Graph(Data(x=data.x, edge_index=data.edge_index[:, :2])),
    ]
    assert len({digest(graph), *map(digest, others)}) == 4


# ---- files that are not what they should be ----


class Harm:
    """Pickled, it makes a folder when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize(
    "spoil",
    [
        "empty",
        "truncated",
        "a byte",
        "a byte of the state",
        "of another",
        "no digest",
        "another shape",
        "a list",
        "text",
        "pickle",
        "torch pickle",
    ],
)
def test_a_spoilt_file_is_made_again(kept, tmp_path, spoil):
    draw, harm = Draw(), tmp_path / "harm"
    first = outcome(lambda: cache.memoise("draw", draw, 1))
    path = kept / entries(kept)[0]
    outcome(lambda: cache.memoise("draw", draw, 2))
    other = kept / next(name for name in entries(kept) if name != path.name)
    whole, content = path.read_bytes(), torch.load(path, weights_only=True)

    def flipped(tensor: torch.Tensor) -> bytes:
        inside = tensor.numpy().tobytes()
        assert whole.count(inside) == 1
        return whole.replace(inside, bytes([inside[0] ^ 1]) + inside[1:])

    torch.save({**content, "digest": ""}, tmp_path / "no digest")
    torch.save({**content, "values": [1, 2]}, tmp_path / "another shape")
    torch.save([1, 2], tmp_path / "a list")
    torch.save({**content, "more": Harm(harm)}, tmp_path / "torch pickle")
    files = {
        "empty": b"",
        "truncated": whole[:-100],
        "a byte": flipped(content["values"]["row"]),
        "text": b"hello\n" * 50,
        "a byte of the state": flipped(content["state"]),
        "of another": other.read_bytes(),
        "pickle": pickle.dumps(Harm(harm), 2),
    }
    path.write_bytes(files[spoil] if spoil in files else (tmp_path / spoil).read_bytes())
    assert same(first, outcome(lambda: cache.memoise("draw", draw, 1))) and draw.calls == 3
    assert torch.load(path, weights_only=True)["digest"] == content["digest"]
    assert same(first, outcome(lambda: cache.memoise("draw", draw, 1))) and draw.calls == 3
    assert not harm.exists()


@pytest.mark.parametrize("reason", ["no directory", "full disk"])
def test_without_a_place_it_computes_and_says_so_once(tmp_path, monkeypatch, reason):
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").touch()
    place = tmp_path / "file" / "below" if reason == "no directory" else tmp_path / "full"
    monkeypatch.setenv(cache.FOLDER, str(place))
    if reason == "full disk":
        monkeypatch.setattr(atomic, "write_bytes", full)
    draw = Draw()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        first, second = (outcome(lambda: cache.memoise("draw", draw, ())) for _ in range(2))
    assert same(first, second) and draw.calls == 2
    (warning,) = told
    assert "Not a directory" in str(warning.message) or "No space left" in str(warning.message)
    assert entries(tmp_path) == ["file"]


def test_a_directory_that_is_only_read_still_serves(kept, monkeypatch):
    draw = Draw()
    first = outcome(lambda: cache.memoise("draw", draw, ()))

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    for owner, name in ((atomic, "write_bytes"), (os, "utime"), (os, "open")):
        monkeypatch.setattr(owner, name, refuse)
    assert same(first, outcome(lambda: cache.memoise("draw", draw, ()))) and draw.calls == 1


# ---- the limit ----


def test_the_least_recently_used_go_first(kept, monkeypatch):
    draw = Draw(1000)
    for number in range(3):
        cache.memoise("draw", draw, number)
    paths = sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    size = paths[0].stat().st_size
    for age, path in zip((30, 20, 10), paths):
        os.utime(path, (time.time() - age,) * 2)
    (kept / "notes.txt").write_text("mine")
    (kept / "other.pt").write_bytes(bytes(10 * size))
    torch.manual_seed(0)
    limit(monkeypatch, 3.5 * size)
    state = torch.load(paths[0], weights_only=True)
    content = cache._read(paths[0], paths[0].stem)  # a hit makes it the latest
    assert content is not None and torch.equal(content[1], state["state"])
    cache.memoise("draw", draw, "one more")
    left = set(kept.glob("*.pt"))
    assert paths[0] in left and paths[1] not in left and paths[2] in left and len(left) == 4
    assert (kept / "notes.txt").exists() and (kept / "other.pt").exists()
    before = draw.calls
    limit(monkeypatch, size // 2)
    cache.memoise("draw", draw, "too large")
    assert draw.calls == before + 1 and set(kept.glob("*.pt")) == left


def test_what_a_killed_process_left_goes(kept):
    kept.mkdir(parents=True)
    old, new = (kept / f".{letter * 64}.pt.1.tmp" for letter in "ab")
    lock = kept / f"{'c' * 64}.lock"
    for path in (old, new, lock):
        path.touch()
    for path in (old, lock):
        os.utime(path, (time.time() - 2 * cache.STALE,) * 2)
    cache.memoise("draw", Draw(), ())
    assert new.exists() and not old.exists() and not lock.exists() and len(entries(kept)) == 2


def test_the_environment_chooses(tmp_path, monkeypatch):
    draw = Draw()
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "here"))
    outcome(lambda: cache.memoise("draw", draw, ()))
    assert len(entries(tmp_path / "here" / "computed")) == 1
    for limit in ("-1", "many", "nan", "1e9"):
        monkeypatch.setenv(cache.LIMIT, limit)
        with pytest.raises(InputError, match=f"{cache.LIMIT}.*GiB"):
            cache.memoise("draw", draw, ())
    monkeypatch.setenv(cache.LIMIT, "0.000001")
    outcome(lambda: cache.memoise("draw", draw, 2))
    assert len(entries(tmp_path / "here" / "computed")) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for off in ("", "off"):
        monkeypatch.setenv(cache.FOLDER, off)
        assert cache.cache_folder() == tmp_path / "graphgym_srnc"
    outcome(lambda: cache.memoise("draw", draw, ()))
    assert draw.calls == 3 and not (tmp_path / "graphgym_srnc").exists()


# ---- several processes ----


def test_the_second_process_waits_for_the_first(kept, tmp_path):
    log = tmp_path / "log"
    draw = Draw(log=log, pause=0.5)

    def work(name: str) -> None:
        torch.save(outcome(lambda: cache.memoise("draw", draw, ())), tmp_path / name)

    assert together(lambda: work("a"), lambda: work("b")) == [0, 0]
    assert len(log.read_text().split()) == 1
    assert same(*(torch.load(tmp_path / name, weights_only=True) for name in "ab"))
    assert [Path(name).suffix for name in entries(kept)] == [".pt"]


def test_without_locks_both_compute_the_same(kept, tmp_path, monkeypatch):
    import filelock

    log = tmp_path / "log"
    draw = Draw(log=log, pause=0.5)

    def none(self: object, *args: object) -> None:
        raise NotImplementedError("no locks on this file system")

    monkeypatch.setattr(filelock.FileLock, "acquire", none)

    def work(name: str) -> None:
        torch.save(outcome(lambda: cache.memoise("draw", draw, ())), tmp_path / name)

    assert together(lambda: work("a"), lambda: work("b")) == [0, 0]
    assert len(log.read_text().split()) == 2 and len(entries(kept)) == 1
    assert same(*(torch.load(tmp_path / name, weights_only=True) for name in "ab"))
    assert same(
        outcome(lambda: cache.memoise("draw", draw, ())),
        torch.load(tmp_path / "a", weights_only=True),
    )
    assert len(log.read_text().split()) == 2


def test_a_process_that_dies_at_it_holds_nobody_up(kept):
    def die() -> dict[str, torch.Tensor]:
        os._exit(3)

    def work() -> None:
        torch.manual_seed(0)
        cache.memoise("draw", die, ())

    assert together(work) == [3]
    draw, begin = Draw(), time.monotonic()
    outcome(lambda: cache.memoise("draw", draw, ()))
    assert draw.calls == 1 and time.monotonic() - begin < 5


def test_who_waits_for_another_process_says_so(kept, monkeypatch, capsys):
    from filelock import FileLock

    monkeypatch.setattr(cache, "SILENT", 0.1)
    monkeypatch.setattr(cache, "WAIT", 0.3)
    path = kept / "a.lock"
    with cache.locked(path, "weights"):
        assert capsys.readouterr().err == ""
    kept.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        begin = time.monotonic()
        with cache.locked(path, "weights"):
            assert 0.25 < time.monotonic() - begin < 5
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "another process that makes weights" in error
    assert str(path) in error


# ---- data sets ----


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data set that takes long to download, and the log of its downloads."""
    log = tmp_path / "log"

    class Small(InMemoryDataset):
        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.load(self.processed_paths[0])

        raw_file_names = ("edges.npy", "labels.npy")
        processed_file_names = "data.pt"

        def download(self) -> None:
            order = np.arange(30)
            np.save(Path(self.raw_dir) / "edges.npy", np.stack([order, (order + 1) % 30]))
            tell(log, 0.5)
            np.save(Path(self.raw_dir) / "labels.npy", order % 3)

        def process(self) -> None:
            edges, labels = (torch.from_numpy(np.load(path)) for path in self.raw_paths)
            self.save([Data(x=torch.eye(30), edge_index=edges, y=labels)], self.processed_paths[0])

    monkeypatch.setattr(torch_geometric.datasets, "Small", Small, raising=False)
    monkeypatch.setattr(pyg, "SAFE", {*pyg.SAFE, "Small"})
    monkeypatch.setattr(Small, "__module__", "torch_geometric.datasets")
    datasets.load.cache_clear()
    yield log
    datasets.load.cache_clear()


def graph_of(name: str, root: Path, out: Path) -> None:
    data = datasets.load(name, str(root))
    torch.save([data.x, data.edge_index, data.y], out)


def test_two_processes_download_once(small, tmp_path):
    root = tmp_path / "data"
    calls = [lambda out=out: graph_of("Small", root, tmp_path / out) for out in "ab"]
    assert together(*calls) == [0, 0] and len(small.read_text().split()) == 1
    assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ab"))
    files = sorted(path.name for path in root.rglob("*") if path.is_file())
    assert files == ["edges.npy", "labels.npy"]
    assert not list(cache.cache_folder().glob("*.lock"))
    graph_of("Small", root, tmp_path / "c")
    assert len(small.read_text().split()) == 1


def test_two_processes_parse_once(tmp_path, monkeypatch):
    root = write_arxiv(tmp_path / "data", np.array([2005] * 20 + [2013] * 10))
    log, read = tmp_path / "log", pyg.read
    monkeypatch.setattr(pyg, "read", lambda *args: tell(log, 0.5) or read(*args))
    datasets.load.cache_clear()
    calls = [lambda out=out: graph_of("ogbn-arxiv", root, tmp_path / out) for out in "ab"]
    assert together(*calls) == [0, 0] and len(log.read_text().split()) == 1
    assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ab"))
    (parsed,) = cache.cache_folder().iterdir()
    for spoilt in (parsed.read_bytes()[:-50], pickle.dumps(Harm(tmp_path / "harm"), 2)):
        parsed.write_bytes(spoilt)
        datasets.load.cache_clear()
        graph_of("ogbn-arxiv", root, tmp_path / "c")
        assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ac"))
    assert len(log.read_text().split()) == 3 and not (tmp_path / "harm").exists()
    datasets.load.cache_clear()
    data = datasets.load("ogbn-arxiv", str(root))
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(parsed) in maps.read_text()
    data.x += 1  # in memory, where the file is mapped, and not in it
    datasets.load.cache_clear()
    graph_of("ogbn-arxiv", root, tmp_path / "d")
    assert len(log.read_text().split()) == 3
    assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ad"))


def test_each_data_set_is_prepared_once(gym, small, tmp_path, monkeypatch):
    words = [
        "dataset.format",
        "open_set",
        "dataset.name",
        "Small",
        "dataset.dir",
        str(tmp_path / "data"),
        "open_set.num_unseen",
        "1",
        "open_set.labels_per_class",
        "2",
        "open_set.num_val",
        "6",
        "open_set.num_test",
        "9",
    ]
    configs = [
        gym.load_config(None, [*words, *more])
        for more in (
            [],
            ["seed", "3"],
            ["train.mode", "erm"],
            ["open_set.split_seed", "4"],
            ["open_set.unseen", "[1]"],
            ["gnn.dim_inner", "3"],
        )
    ]
    made = []
    monkeypatch.setattr(
        gym_prepare, "build_task", lambda cfg: made.append(cfg) or gym.build_task(cfg)
    )
    found = gym_prepare.prepare(configs)
    assert made == [configs[0], configs[4]] and len(small.read_text().split()) == 1
    assert found == {gym_prepare.data_key(cfg): gym.build_task(cfg).fingerprint() for cfg in made}
    keys = [gym_prepare.data_key(cfg) for cfg in configs]
    assert keys[0] == keys[2] == keys[5] and len({*keys}) == 4
    again = datasets.load.cache_info().misses
    gym_prepare.prepare(configs[:1])
    assert datasets.load.cache_info().currsize == 0 and again == 1


def test_what_cannot_be_prepared_is_named(gym, tmp_path, monkeypatch):
    good = gym.load_config(None, TINY)
    bad = gym.load_config(
        None, ["dataset.format", "file", "dataset.name", "nothing.pt", "dataset.dir", str(tmp_path)]
    )
    with pytest.raises(
        InputError, match=r"file.path: 'nothing.pt' does.*\(file/nothing.pt, config 1\)"
    ):
        gym_prepare.prepare([good, bad])

    def torn(cfg: object) -> None:
        raise EOFError("file ends early")

    monkeypatch.setattr(gym_prepare, "build_task", torn)
    where = r"\(EOFError: file ends early\)\. \(synthetic/synthetic, config mine\)"
    with pytest.raises(InputError, match=f"dataset.name: 'synthetic'.*{where}"):
        gym_prepare.prepare([good], ["mine"])

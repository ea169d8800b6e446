"""Files of strangers run no code unless the command line says ``--trust``: real exploits, each of
which makes a file if it is read by somebody careless."""

from __future__ import annotations

import json
import operator
import os
import pickle
import threading
from pathlib import Path

import joblib
import numpy as np
import pandas
import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import InMemoryDataset

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import catalogue, untrusted
from graphgym_srnc.gym import load_config
from graphgym_srnc.io.settings import digest
from graphgym_srnc.io.store import write_record
from graphgym_srnc.sweep import plan, worker
from graphgym_srnc.train import model as models

pytestmark = pytest.mark.usefixtures("unchanged_globals")
CONFIG = """\
dataset: {{format: open_set, name: {name}, dir: {folder}}}
open_set: {{num_unseen: 1, labels_per_class: 5, num_val: 20, num_test: 20, split: random{more}}}
train: {{mode: erm, max_episodes: 1}}
erm: {{steps: 2}}
gnn: {{dim_inner: 4}}
"""


class Trap:
    """Pickled, it makes an empty file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


class Trapped(Trap):
    """A trap as well, which becomes what one expects to find."""

    def __init__(self, mark: Path, content: object) -> None:
        super().__init__(mark)
        self.content = content

    def __reduce__(self) -> tuple:
        return operator.getitem, ([Trap(self.mark), self.content], 1)


@pytest.fixture
def mark(tmp_path, monkeypatch) -> Path:
    """The file that no test without trust may find; data sets are read anew."""
    monkeypatch.delenv("GRAPHGYM_SRNC_DATA", raising=False)
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shifts.forget()
    yield tmp_path / "ran"
    shifts.forget()


def graph(num_nodes: int = 90) -> dict[str, np.ndarray]:
    """What ``facebook.npz`` holds: a ring of three classes."""
    nodes, target = np.arange(num_nodes), np.arange(num_nodes) % 3
    return {
        "features": np.eye(3)[target],
        "target": target,
        "edges": np.stack([nodes, (nodes + 3) % num_nodes], 1),
    }


def facebook(folder: str = "evil") -> Path:
    """Where PyG's ``FacebookPagePage`` looks for its file, which it opens by ``allow_pickle``."""
    raw = Path(folder, "facebookpagepage", "raw")
    raw.mkdir(parents=True, exist_ok=True)
    return raw / "facebook.npz"


def pickled_facebook(mark: Path) -> None:
    """A pickle that is a whole data set for who trusts it."""
    facebook().write_bytes(pickle.dumps(Trapped(mark, graph())))


def pickled_planetoid(mark: Path) -> None:
    """Cora's files with 600 papers, and a trap in one of them."""
    raw = Path("evil", "planetoid", "Cora", "raw")
    raw.mkdir(parents=True)
    x = y = np.eye(3)[np.arange(600) % 3]
    graph = {node: [(node + 3) % 600] for node in range(600)}
    fields = {
        "x": x[:20],
        "y": y[:20],
        "allx": x[:560],
        "ally": y[:560],
        "tx": x[560:],
        "ty": y[560:],
        "graph": graph,
    }
    for name, value in fields.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(value))
    (raw / "ind.cora.graph").write_bytes(pickle.dumps(Trapped(mark, graph)))
    (raw / "ind.cora.test.index").write_text("\n".join(map(str, range(560, 600))))


def config(name: str = "FacebookPagePage", folder: str = "evil", more: str = "") -> str:
    Path("config.yaml").write_text(CONFIG.format(name=name, folder=folder, more=more))
    return "config.yaml"


def run(*words: str) -> int:
    return main(
        [
            "run",
            "--cfg",
            "config.yaml",
            "--out-dir",
            "out",
            "--name",
            "one",
            "--no-figures",
            "--no-tensorboard",
            *words,
        ]
    )


def refusal(status: int, capsys) -> str:
    """The one line of a refused command, below notes of keys that it does not read."""
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.startswith("note: ")]
    assert status == 2 and len(lines) == 1, captured.err
    return lines[0]


def test_object_array_of_a_foreign_reader(mark, capsys):
    trap = np.empty(1, dtype=object)
    trap[0] = Trap(mark)
    np.savez(facebook(), **graph() | {"features": trap})
    config()
    for command in (run, lambda: main(["data", "show", "--cfg", "config.yaml"])):
        line = refusal(command(), capsys)
        assert "FacebookPagePage" in line and str(facebook().parents[1].absolute()) in line
        assert "a pickle that needs numpy." in line and "--trust" in line
    assert not mark.exists() and not Path("out").exists()


def test_plain_arrays_of_a_foreign_reader_need_no_trust(mark):
    np.savez(facebook(), **graph())
    config()
    assert run() == 0 and Path("out/one/0/result.json").is_file()


@pytest.mark.parametrize("command", ["run", "data", "grid"])
def test_trust_is_said_on_the_command_line(mark, capsys, command):
    pickled_facebook(mark)
    config()
    Path("grid.txt").write_text("erm.steps s [2]\n")
    words = {
        "run": ["run", "--out-dir", "out", "--no-figures", "--no-tensorboard"],
        "data": ["data", "show"],
        "grid": [
            "grid",
            "--grid",
            "grid.txt",
            "--out-dir",
            "out",
            "--jobs",
            "1",
            "--no-tensorboard",
        ],
    }[command]
    words += ["--cfg", "config.yaml"]
    assert "--trust" in refusal(main(words), capsys) and not mark.exists()
    assert main([*words, "--trust"]) == 0 and mark.exists()
    shifts.forget()
    mark.unlink()
    assert main([*words, *([] if command == "data" else ["--overwrite"])]) == 2
    assert not mark.exists()


def test_a_worker_trusts_what_its_parent_trusts(mark, tmp_path):
    pickled_facebook(mark)
    cells = plan.cells([()], config(), "base", [], tmp_path / "out", 1)
    (job,) = plan.jobs(cells, {"tensorboard": False})
    with untrusted.trusted():
        (trusting,) = plan.jobs(cells, {"tensorboard": False})
        assert trusting == job._replace(trust=True)
        with pytest.raises(InputError, match="--trust"):
            worker.execute(job)
    assert not mark.exists()
    worker.execute(trusting)
    assert mark.exists() and not untrusted.is_trusted()


@pytest.mark.parametrize("shift", ["open_set", "localized"])
def test_a_config_cannot_loosen_trust(mark, capsys, shift):
    pickled_planetoid(mark)
    config("Cora")
    line = refusal(run("dataset.format", shift, f"{shift}.verify", "false"), capsys)
    assert f"{shift}.verify" in line and "--trust" in line
    line = refusal(run("dataset.format", shift), capsys)
    assert "ind.cora" in line and "SHA-256" in line and "--trust" in line
    config("Cora", more=", verify: False")
    assert "open_set.verify" in refusal(run(), capsys)
    assert not mark.exists()


def test_trusted_pickles_of_planetoid(mark):
    pickled_planetoid(mark)
    config("Cora")
    assert main(["data", "show", "--cfg", "config.yaml", "--trust"]) == 0 and mark.exists()


def stored(change: dict[str, dict]) -> None:
    """Make a finished run say that its config is another, as whoever sends it can."""
    folder = Path("out/one/0")
    result = json.loads((folder / "result.json").read_text())
    for block, values in change.items():
        result["config"][block] |= values
    result["digest"] = digest(result["config"])
    write_record(folder, result)
    model = models.load(folder / "model.safetensors")
    model.facts["digest"] = result["digest"]
    model.save(folder / "model.safetensors")


@pytest.mark.parametrize("command", ["predict", "discover"])
@pytest.mark.parametrize(
    "name, prepare", [("FacebookPagePage", pickled_facebook), ("Cora", pickled_planetoid)]
)
def test_a_stored_run_cannot_loosen_trust(mark, capsys, command, name, prepare):
    np.savez(facebook("good"), **graph())
    config(folder="good")
    assert run() == 0
    prepare(mark)
    stored({"dataset": {"name": name, "dir": "evil"}})
    capsys.readouterr()
    shifts.forget()
    words = [command, "out/one", *(["--out", "table.csv"] if command == "predict" else [])]
    assert "--trust" in refusal(main(words), capsys)
    assert not mark.exists() and not Path("table.csv").exists()
    assert main([*words, "--trust"]) in (0, 2)  # Cora's graph is not that of the run
    assert mark.exists()


def test_text_that_a_reader_evaluates(mark, capsys):
    raw = Path("evil/cornelltemporalhypergraphdataset/email-Eu-25/transductive/raw")
    raw.mkdir(parents=True)
    code = f"[__import__('os').mknod('{mark}')]"
    for part in ("train", "val", "test"):
        (raw / f"{part}_df.csv").write_text(f'nodes,timestamp\n"{code}",1\n')
    config("CornellTemporalHyperGraphDataset/email-Eu-25")
    line = refusal(run(), capsys)
    assert "runs as code" in line and "--trust" in line and not mark.exists()


class Careless(InMemoryDataset):
    """Reads a file by ``Careless.reader``, then its own processed one as a pickle, as ogb does."""

    raw_file_names, processed_file_names, reader = "file", "data.pt", None

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.data, self.slices = torch.load(self.processed_paths[0], weights_only=False)

    def download(self) -> None:
        Path(self.raw_dir, "file").write_bytes(Path("evil.pickle").read_bytes())

    def process(self) -> None:
        Careless.reader(self.raw_paths[0])
        fields = [torch.from_numpy(value) for value in graph().values()]
        data = torch_geometric.data.Data(x=fields[0], y=fields[1], edge_index=fields[2].T)
        torch.save(self.collate([data]), self.processed_paths[0])


def in_thread(path: str) -> None:
    errors: list[Exception] = []

    def read() -> None:
        try:
            pandas.read_pickle(path)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    for error in errors:
        raise error


READERS = {
    "pickle.load": lambda path: pickle.load(open(path, "rb")),
    "pickle.loads": lambda path: pickle.loads(Path(path).read_bytes()),
    "pickle in Python": lambda path: pickle._Unpickler(open(path, "rb")).load(),
    "numpy": lambda path: np.load(path, allow_pickle=True),
    "pandas": pandas.read_pickle,
    "joblib": joblib.load,
    "torch": lambda path: torch.load(path, weights_only=False),
    "another thread": in_thread,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_downloaded_pickle_is_refused_whoever_reads_it(mark, monkeypatch, reader, protocol):
    if reader == "torch":
        torch.save(Trap(mark), "evil.pickle")
    else:
        Path("evil.pickle").write_bytes(pickle.dumps(Trap(mark), protocol))
    monkeypatch.setattr(torch_geometric.datasets, "Careless", Careless, raising=False)
    monkeypatch.setattr(Careless, "__module__", "torch_geometric.datasets")
    monkeypatch.setattr(Careless, "reader", staticmethod(READERS[reader]))
    build = shifts.find("open_set")
    options = {
        "name": "Careless",
        "root": "evil",
        "labels_per_class": 5,
        "num_val": 20,
        "num_test": 20,
        "num_unseen": 1,
    }
    environment = dict(os.environ)
    with pytest.raises(InputError, match="Careless.*--trust"):
        build(**options)
    assert not mark.exists() and dict(os.environ) == environment
    assert not Path("evil/careless").exists()  # what was refused is not kept
    READERS["pickle.loads"](_pickled(Path("outside")))  # elsewhere all is as ever
    with untrusted.trusted():
        assert build(**options).source.num_nodes == 90
    assert mark.exists()


def _pickled(path: Path) -> Path:
    path.write_bytes(pickle.dumps(np.arange(3)))
    return path


def test_own_processed_files_of_plain_data_need_no_trust(mark, monkeypatch):
    Path("evil.pickle").write_bytes(pickle.dumps({"plain": [1, 2.0, "three", None]}))
    monkeypatch.setattr(torch_geometric.datasets, "Careless", Careless, raising=False)
    monkeypatch.setattr(Careless, "__module__", "torch_geometric.datasets")
    monkeypatch.setattr(Careless, "reader", staticmethod(READERS["pickle.load"]))
    task = shifts.find("open_set")(
        name="Careless", root="evil", labels_per_class=5, num_val=20, num_test=20, num_unseen=1
    )
    assert task.source.num_nodes == 90 and Path("evil/careless/raw/file").is_file()


@pytest.mark.parametrize("member", ["..", "../x", "a/../../x", "/x", ".x", "a\\..\\x"])
def test_a_member_is_no_path(member):
    with pytest.raises(InputError, match="Class/Member"):
        catalogue.resolve(f"TUDataset/{member}")


def test_a_wrong_name_of_trust_is_no_config_key():
    with pytest.raises(InputError):
        load_config(None, ["trust", "true"])

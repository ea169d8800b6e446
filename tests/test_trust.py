"""Files of strangers run no code without ``--trust``: exploits that make a file if they run."""

from __future__ import annotations

import gzip
import io
import json
import operator
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.datasets
import written
from conftest import NO_PICTURES, refusal
from torch_geometric.data import InMemoryDataset
from written import Trap

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import catalogue, untrusted
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import load_config
from graphgym_srnc.io import config_files, tensors
from graphgym_srnc.io.records import write_record
from graphgym_srnc.io.settings import digest
from graphgym_srnc.sweep import runs, worker

pytestmark = pytest.mark.usefixtures("unchanged_globals")
CONFIG = """\
dataset: {{format: open_set, name: {name}, dir: {folder}}}
open_set: {{num_unseen: 1, labels_per_class: 5, num_val: 20, num_test: 20, split: random{more}}}
train: {{mode: erm, max_episodes: 1}}
erm: {{steps: 2}}
gnn: {{dim_inner: 4}}
"""
SIZES = {"labels_per_class": 5, "num_val": 20, "num_test": 20, "num_unseen": 1}


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
    monkeypatch.chdir(tmp_path)
    shifts.forget()
    yield tmp_path / "ran"
    shifts.forget()


def graph(num_nodes: int = 90) -> dict[str, np.ndarray]:
    """What ``facebook.npz`` holds: a ring of three classes."""
    nodes = np.arange(num_nodes)
    target = np.arange(num_nodes) % 3
    edges = np.stack([nodes, (nodes + 3) % num_nodes], 1)
    return {"features": np.eye(3)[target], "target": target, "edges": edges}


def facebook(folder: str = "evil") -> Path:
    """Where PyG's ``FacebookPagePage`` looks for its file, which it opens by ``allow_pickle``."""
    raw = Path(folder, "facebookpagepage", "raw")
    raw.mkdir(parents=True, exist_ok=True)
    return raw / "facebook.npz"


def pickled_facebook(mark: Path) -> None:
    """A pickle that is a whole data set for who trusts it."""
    facebook().write_bytes(pickle.dumps(Trapped(mark, graph())))


def object_array(mark: Path) -> None:
    trap = np.empty(1, dtype=object)
    trap[0] = Trap(mark)
    np.savez(facebook(), **graph() | {"features": trap})


def pickle_and_zip(mark: Path) -> None:
    """Plain arrays for who looks at the end of the file, a pickle for NumPy."""
    packed = io.BytesIO(pickle.dumps(Trapped(mark, graph())))
    packed.seek(0, io.SEEK_END)
    with zipfile.ZipFile(packed, "a") as archive:
        for name, value in graph().items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, value)
    facebook().write_bytes(packed.getvalue())


def papers() -> None:
    """Files of ogbn-arxiv."""
    made = written.graph(200, 4, 10)
    arrays = made.x.numpy(), made.edge_index.numpy().T, made.y.numpy(), np.full(200, 2010)
    written.arxiv(Path("evil"), *arrays)


def pickled_planetoid(mark: Path) -> None:
    """Cora's files, and a trap in one of them."""
    written.planetoid(Path("evil"), "Cora", 3)
    file = Path("evil/planetoid/Cora/raw/ind.cora.graph")
    file.write_bytes(pickle.dumps(Trapped(mark, pickle.loads(file.read_bytes()))))


def config(name: str = "FacebookPagePage", folder: str = "evil", more: str = "") -> str:
    Path("config.yaml").write_text(CONFIG.format(name=name, folder=folder, more=more))
    return "config.yaml"


def run(*words: str) -> int:
    out = ("--out-dir", "out", "--name", "one", *NO_PICTURES)
    return main(["run", "--cfg", "config.yaml", *out, *words])


@pytest.mark.parametrize("prepare", [pickled_facebook, object_array, pickle_and_zip])
def test_arrays_of_a_careless_reader_are_checked(mark, capsys, prepare):
    prepare(mark)
    config()
    line = refusal(main(["data", "show", "--cfg", "config.yaml"]), capsys)
    assert str(facebook().absolute()) in line and "--trust" in line
    assert not mark.exists() and not Path("out").exists()
    np.savez(facebook(), **graph())
    assert run() == 0 and Path("out/one/0/result.json").is_file()


def test_trust_is_said_on_the_command_line(mark, capsys):
    pickled_facebook(mark)
    config()
    words = ["run", "--out-dir", "out", *NO_PICTURES, "--cfg", "config.yaml"]
    assert "--trust" in refusal(main(words), capsys) and not mark.exists()
    assert main([*words, "--trust"]) == 0 and mark.exists()
    shifts.forget()
    mark.unlink()
    assert main([*words, "--overwrite"]) == 2
    assert not mark.exists()


def test_a_worker_trusts_what_its_parent_trusts(mark, tmp_path):
    pickled_facebook(mark)
    cells = runs.cells([()], config_files.read(config()), "base", [], tmp_path / "out", 1)
    (job,) = runs.jobs_of(cells[0], False, False, False)
    with untrusted.trusted():
        (trusting,) = runs.jobs_of(cells[0], False, False, False)
        assert trusting == job._replace(trust=True)
        with pytest.raises(InputError, match="`trust`"):
            worker.execute(job)
    assert not mark.exists()
    worker.execute(trusting)
    assert mark.exists() and not untrusted.is_trusted()


@pytest.mark.parametrize("shift", ["open_set", "localized"])
def test_a_config_cannot_loosen_trust(mark, capsys, shift):
    pickled_planetoid(mark)
    config("Cora")
    line = refusal(run("dataset.format", shift, f"{shift}.verify", "false"), capsys)
    assert f"{shift}.verify" in line
    line = refusal(run("dataset.format", shift), capsys)
    assert "ind.cora" in line and "SHA-256" in line and "--trust" in line
    config("Cora", more=", verify: False")
    assert "open_set.verify" in refusal(run(), capsys)
    with pytest.raises(InputError):
        load_config(None, ["trust", "true"])
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
    about, state = tensors.read(folder / "model.safetensors")
    about["facts"]["digest"] = result["digest"]
    tensors.write(folder / "model.safetensors", about, state)


@pytest.mark.parametrize(
    "command, name, prepare",
    [("predict", "FacebookPagePage", pickled_facebook), ("discover", "Cora", pickled_planetoid)],
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


def test_other_readers_of_pyg_need_trust(mark, monkeypatch):
    """A reader that is not on the list runs nothing, not even its download."""

    class Careless(InMemoryDataset):
        raw_file_names = "file"
        processed_file_names = "data.pt"

        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.data, self.slices = torch.load(self.processed_paths[0], weights_only=False)

        def download(self) -> None:
            Path(self.raw_dir, "file").write_bytes(pickle.dumps(Trap(mark)))

        def process(self) -> None:
            pickle.loads(Path(self.raw_paths[0]).read_bytes())
            fields = {name: torch.from_numpy(value) for name, value in graph().items()}
            x = fields["features"]
            y = fields["target"]
            edges = fields["edges"].T
            data = torch_geometric.data.Data(x=x, y=y, edge_index=edges)
            torch.save(self.collate([data]), self.processed_paths[0])

    monkeypatch.setattr(torch_geometric.datasets, "Careless", Careless, raising=False)
    monkeypatch.setattr(Careless, "__module__", "torch_geometric.datasets")
    options = {"name": "Careless", "root": "evil", **SIZES}
    for name in ("Careless", "CornellTemporalHyperGraphDataset/email-Eu-25"):
        with pytest.raises(InputError, match=f"{name.partition('/')[0]}.*`trust`"):
            shifts.find("open_set")(**options | {"name": name})
    assert not mark.exists() and not Path("evil").exists()
    with untrusted.trusted():
        assert shifts.find("open_set")(**options).source.num_nodes == 90
    assert mark.exists()


def test_processed_files_in_the_data_folder_are_not_read(mark):
    np.savez(facebook(), **graph())
    papers()
    ogb = Path("evil/ogb/ogbn_arxiv")
    processed = facebook().parents[1] / "processed"
    traps = [processed / f"{name}.pt" for name in ("data", "pre_filter", "pre_transform")]
    traps += [ogb / "processed/geometric_data_processed.pt", ogb / "split/time/split_dict.pt"]
    for file in traps:
        file.parent.mkdir(exist_ok=True)
        torch.save(Trap(mark), file)
    assert shifts.find("open_set")(name="FacebookPagePage", root="evil", **SIZES)
    task = shifts.find("open_set")(name="ogbn-arxiv", root="evil", **SIZES)
    assert task.test.tolist() == [199] and not mark.exists()


def test_a_text_file_that_is_a_pickle(mark):
    papers()
    for part in ("edge", "node-feat", "node-label", "node_year"):
        file = Path(f"evil/ogb/ogbn_arxiv/raw/{part}.csv.gz")
        before = file.read_bytes()
        file.write_bytes(gzip.compress(pickle.dumps(Trap(mark))))
        with pytest.raises(InputError):
            shifts.find("open_set")(name="ogbn-arxiv", root="evil", **SIZES)
        file.write_bytes(before)
    assert not mark.exists()


@pytest.mark.parametrize("member", ["..", "a/../../x", "/x", "a\\..\\x"])
def test_a_member_is_no_path(member):
    with pytest.raises(InputError, match="Class/Member"):
        catalogue.resolve(f"TUDataset/{member}")

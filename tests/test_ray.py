"""A grid on Ray's own test cluster, several nodes on one machine: what comes back, what is tried
again, what is refused."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import is_alive, make_graph
from stored import run_record
from yacs.config import CfgNode

from graphgym_srnc import __version__
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records, store
from graphgym_srnc.sweep import worker
from graphgym_srnc.sweep.jobs import Job, Limits

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CONFIG = {
    "seed": 0,
    "out_dir": "results",
    "train": {"mode": "erm"},
    "dataset": {"format": "synthetic", "name": "toy", "dir": "./datasets"},
}


def marked_run(job: Job) -> str:
    """Leave a mark that a run has begun, do what the job says, and store a record."""
    node = os.environ.get("TOY_NODE", "")
    Path(job.extras["marks"], f"{job.seed}-{node}-{os.getpid()}-{time.monotonic_ns()}").touch()
    do = job.extras["do"].get(job.seed, 0)
    if do == "raise":
        raise ValueError("this run cannot be done")
    if do == "die":
        os._exit(3)
    time.sleep(do)
    place = store.Experiment(job.out_dir, job.name, job.cfg)
    place.begin(job.seed)
    place.finish(job.seed, run_record([0.5 + job.seed / 100]))
    return f"toy {job.seed}"


@pytest.fixture(scope="module", autouse=True)
def ray_is_imported():
    """By these tests alone, since it takes long."""
    global on_ray
    pytest.importorskip("ray", reason="the extra ray is not installed")
    on_ray = importlib.import_module("graphgym_srnc.sweep.on_ray")


@pytest.fixture(autouse=True)
def data_of_toys(monkeypatch):
    """Toy runs have no data to compare; their records say that their split is s0."""
    real = worker.split_of
    monkeypatch.setattr(worker, "split_of", lambda job: "s0" if job.name == "toy" else real(job))


def marked_jobs(tmp_path: Path, number: int, **do) -> list[Job]:
    (tmp_path / "marks").mkdir(exist_ok=True)
    extras = {"marks": str(tmp_path / "marks"), "do": do.get("do", {})}
    cfg = CfgNode(CONFIG | {"out_dir": str(tmp_path / "out")})
    return [Job(cfg.out_dir, "toy", seed, cfg, extras) for seed in range(number)]


def marks(tmp_path: Path) -> list[tuple[int, str, int]]:
    """Seed, node and process of every beginning of a run."""
    found = [path.name.split("-") for path in (tmp_path / "marks").iterdir()]
    return sorted((int(seed), node, int(process)) for seed, node, process, _ in found)


def numbers(result: records.Result) -> dict:
    history = [episode | {"seconds": 0} for episode in result["history"]]
    kept = ("seed", "digest", "split", "selected", "val", "test", "warnings", "versions", "threads")
    return {key: result[key] for key in kept} | {"history": history}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head and a node with one core each; the driver works in another folder, so that only the
    installed package is found."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.chdir(tmp_path_factory.mktemp("driver"))
        node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
        cluster = Cluster(
            initialize_head=True,
            head_node_args={**node, "include_dashboard": False, "env_vars": {"TOY_NODE": "head"}},
        )
        try:
            cluster.second = cluster.add_node(**node, env_vars={"TOY_NODE": "second"})
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    """The driver stays connected, which saves the start of new workers."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")


def import_path(job: Job) -> str:
    """Where a worker of Ray, and the process of a run that it starts, look for modules."""
    return os.pathsep.join(["", *sys.path])


def test_nodes_import_nothing_of_the_current_folder(cluster, tmp_path):
    here = os.getcwd()
    limits = Limits(0.0, 0)
    jobs = marked_jobs(tmp_path, 1)
    with on_ray._connected(cluster.address):
        import ray

        in_ray = ray.get(ray.remote(lambda: [*sys.path]).remote())
        (outcome,) = on_ray.local.run(jobs, import_path, limits)
    assert os.getcwd() == here and here not in in_ray
    assert here not in outcome.message.split(os.pathsep)


def test_without_ray_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "graphgym_srnc.sweep.on_ray", raising=False)
    with pytest.raises(InputError, match=r"^executor: the package ray.*graphgym-srnc\[ray\]"):
        importlib.import_module("graphgym_srnc.sweep.on_ray")


def test_runs_come_back_and_errors_stay_with_their_run(cluster, tmp_path):
    jobs = marked_jobs(tmp_path, 16, do={3: "raise", 5: "die", 6: 0.5})
    runs = on_ray.run(jobs, marked_run, Limits(retries=1), address=cluster.address)
    outcomes = {outcome.job.seed: outcome for outcome in runs}
    assert {seed for seed, outcome in outcomes.items() if outcome.state != "done"} == {3, 5}
    assert outcomes[3].attempts == 1 and "in marked_run" in outcomes[3].message
    assert "ValueError: this run cannot be done" in outcomes[3].message
    assert outcomes[5].state == "failed" and outcomes[5].attempts == 2
    assert "died" in outcomes[5].message
    assert outcomes[6].message == "toy 6"
    begun = marks(tmp_path)
    assert {node for _, node, _ in begun} == {"head", "second"}
    assert len({process for *_, process in begun}) <= 4, "workers serve run after run"
    assert stored(tmp_path) == {*range(16)} - {3, 5}


def stored(tmp_path: Path) -> set[int]:
    """Seeds that came back, each with its own score."""
    found = records.read_results(tmp_path / "out" / "toy")
    for seed, result in found.items():
        assert result["val"]["micro_f1"] == 0.5 + seed / 100
    assert not list((tmp_path / "out").rglob("*.tmp"))
    return {*found}


def test_closing_ends_what_runs(connected, tmp_path):
    outcomes = on_ray.run(
        marked_jobs(tmp_path, 4, do={1: 600, 2: 600, 3: 600}), marked_run, Limits()
    )
    assert next(outcomes).job.seed == 0
    wait_for(lambda: {1, 2} <= {seed for seed, *_ in marks(tmp_path)})
    workers = [process for seed, _, process in marks(tmp_path) if seed]
    outcomes.close()
    wait_for(lambda: not any(map(is_alive, workers)))
    assert stored(tmp_path) == {0}


def test_a_real_run_equals_a_local_one(connected, gym, tmp_path):
    cfg = gym.load_config("testing/erm")
    cfg.out_dir = str(tmp_path / "local")
    job = Job(cfg.out_dir, "erm", 3, cfg, {"tensorboard": True})
    line = worker.execute(job)
    elsewhere = cfg.clone()
    elsewhere.out_dir = str(tmp_path / "remote")
    there = job._replace(out_dir=elsewhere.out_dir, cfg=elsewhere)
    (remote,) = on_ray.run([there], worker.execute, Limits())
    assert remote.state == "done"
    # Only the seconds may differ.
    told = [re.sub(r"[\d.]+ s;", "", text) for text in (remote.message, line)]
    assert told[0] == told[1]
    homes = [tmp_path / where / "erm" for where in ("local", "remote")]
    here, there = (records.read_result(home / "3") for home in homes)
    # The record has the folders of the plan, not those of the node.
    assert numbers(here) == numbers(there) and there["config"]["out_dir"] == elsewhere.out_dir
    kinds = [{path.name.split(".")[0] for path in home.rglob("*")} for home in homes]
    assert kinds[0] == kinds[1] and "events" in kinds[1]


def test_a_node_with_another_version_is_named(cluster, connected, tmp_path):
    fake = tmp_path / "other" / "graphgym_srnc"
    fake.mkdir(parents=True)
    real = Path(store.__file__).parents[1]
    (fake / "__init__.py").write_text(f"__version__ = '9.9'\n__path__ = [{str(real)!r}]\n")
    variables = {"PYTHONPATH": os.pathsep.join([str(fake.parent), os.environ["PYTHONPATH"]])}
    node = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, env_vars=variables)
    try:
        jobs = marked_jobs(tmp_path, 20, do=dict.fromkeys(range(20), 3))
        with pytest.raises(InputError, match=rf"srnc 9\.9 is installed on node .*{__version__}"):
            list(on_ray.run(jobs, marked_run, Limits()))
    finally:
        cluster.remove_node(node)


def test_what_no_node_has_is_refused(connected, tmp_path):
    for resources in ({"cpus": 2}, {"gpus": 1}, {"cpus": 1.5}):
        with pytest.raises(InputError, match="resources of a run"):
            list(on_ray.run(marked_jobs(tmp_path, 1), marked_run, Limits(), **resources))
    assert not marks(tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there(tmp_path, monkeypatch, address):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(InputError, match="no Ray cluster answers"):
        list(on_ray.run(marked_jobs(tmp_path, 1), marked_run, Limits(), address=address))


def test_a_node_dies(cluster, connected, tmp_path):
    """Last, since the node is gone afterwards."""
    jobs = marked_jobs(tmp_path, 4, do=dict.fromkeys(range(4), 4))
    killed = []

    def kill() -> None:
        wait_for(lambda: any(node == "second" for _, node, _ in marks(tmp_path)))
        killed.extend(seed for seed, node, _ in marks(tmp_path) if node == "second")
        cluster.remove_node(cluster.second, allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    outcomes = {
        outcome.job.seed: outcome for outcome in on_ray.run(jobs, marked_run, Limits(retries=1))
    }
    thread.join()
    assert {outcome.state for outcome in outcomes.values()} == {"done"}, outcomes
    begun = [seed for seed, *_ in marks(tmp_path)]
    assert len(killed) == 1 and begun == sorted([*range(4), *killed]), "that run alone is repeated"
    assert [seed for seed, outcome in outcomes.items() if outcome.attempts == 2] == killed
    assert stored(tmp_path) == {*range(4)}


@pytest.fixture
def packed(tmp_path) -> tuple[Job, bytes]:
    """A job, and its run as an archive that comes back."""
    job = marked_jobs(tmp_path, 1)[0]
    marked_run(job._replace(out_dir=str(tmp_path / "node")))
    return job, pack(tmp_path / "node" / "toy" / "0")


def pack(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, folder.name)
    return buffer.getvalue()


def test_too_many_bytes_are_not_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "MAX_MIB", 0.001)
    _, outcome, archive = on_ray._work(
        __version__, marked_run, marked_jobs(tmp_path, 1)[0], Limits()
    )
    assert outcome.state == "failed" and "MiB of files; a cluster accepts" in outcome.message
    assert not archive


@pytest.mark.parametrize("name", ["0/../../evil", "../evil", "0/link"])
def test_an_archive_that_leads_elsewhere_is_refused(packed, tmp_path, name):
    buffer = io.BytesIO(packed[1])
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        member = tarfile.TarInfo(name)
        if name == "0/link":
            member.type = tarfile.SYMTYPE
            member.linkname = "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(tarfile.TarError):
        on_ray.unpack(packed[0], buffer.getvalue())
    assert not records.read_results(tmp_path / "out" / "toy") and not list(tmp_path.rglob("evil"))


def test_only_a_finished_run_of_the_config_is_stored(packed, tmp_path):
    job, archive = packed
    other = CfgNode(CONFIG | {"train": {"mode": "iid"}})
    marked_run(job._replace(out_dir=str(tmp_path / "other"), cfg=other))
    (tmp_path / "empty" / "0").mkdir(parents=True)
    for folder in (tmp_path / "other" / "toy" / "0", tmp_path / "empty" / "0"):
        with pytest.raises(InputError, match="not a finished run of the config of toy"):
            on_ray.unpack(job, pack(folder))
    assert not (tmp_path / "out" / "toy" / "0").exists()
    with store.Experiment(tmp_path / "out", "toy", CONFIG).claim(0), pytest.raises(store.Busy):
        on_ray.unpack(job, archive)
    on_ray.unpack(job, archive)
    stored = records.read_results(tmp_path / "out" / "toy")
    on_ray.unpack(job, b"late")
    assert records.read_results(tmp_path / "out" / "toy") == stored and list(stored) == [0]


def test_each_node_reads_its_own_data_and_other_data_are_refused(gym, tmp_path, monkeypatch):
    """The second node has half of the edges."""
    words = (
        "dataset.format file dataset.name graph.npz file.num_val 20 file.num_test 30 erm.steps 1 "
        "file.labels_per_class 3 train.mode erm train.max_episodes 1 dataset.dir"
    ).split()
    cfg = gym.load_config(None, [*words, str(tmp_path / "one"), "out_dir", str(tmp_path / "out")])
    archives = []
    for node, edges in (("one", 400), ("two", 200)):
        graph = make_graph()
        (tmp_path / node).mkdir()
        edge_index = graph.edge_index[:, :edges]
        np.savez(tmp_path / node / "graph.npz", x=graph.x, y=graph.y, edge_index=edge_index)
        job = Job(cfg.out_dir, node, 3, cfg, {"tensorboard": False})
        monkeypatch.setenv("GRAPHGYM_SRNC_DATA", str(tmp_path / node))
        _, outcome, archive = on_ray._work(__version__, worker.execute, job, Limits())
        assert outcome.state == "done", outcome.message
        archives.append((job, archive))
    on_ray.unpack(*archives[0])
    with pytest.raises(InputError, match="dataset.dir: seed 3 of two used other data"):
        on_ray.unpack(*archives[1])
    assert list(records.read_results(tmp_path / "out" / "one")) == [3]
    assert not records.read_results(tmp_path / "out" / "two")


def wait_for(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)

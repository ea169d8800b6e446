"""A grid on Ray's own test cluster, several nodes on one machine: what comes back, what is tried
again, what is refused."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import make_graph
from test_store import record

from graphgym_srnc import __version__
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.sweep import packing, ray_task
from graphgym_srnc.sweep.jobs import Job, Limits

HERE = Path(__file__).parent
TOY = {
    "seed": 0,
    "out_dir": "results",
    "train": {"mode": "erm"},
    "dataset": {"format": "synthetic", "name": "toy", "dir": "./datasets"},
}
EPISODE = {"number": 0, "losses": {"loss": 0.5}, "train": {"micro_f1": 1.0}, "seconds": 0.5}


def toy(job: Job) -> str:
    """Leave a mark that a run has begun, do what the job says, and store a record."""
    marks = Path(job.varied["marks"])
    node = os.environ.get("TOY_NODE", "")
    threads = os.environ.get("OMP_NUM_THREADS")
    (marks / f"{job.seed}-{node}-{os.getpid()}-{time.monotonic_ns()}-{threads}").touch()
    do = job.varied.get("do", {}).get(job.seed, "nothing")
    if do == "raise":
        raise ValueError("this run cannot be done")
    if do == "die":
        os._exit(3)
    if do == "swell":
        ballast = b"x" * (700 * 2**20)
        time.sleep(60 + len(ballast) % 2)
    time.sleep(do if isinstance(do, (int, float)) else 0)
    place = store.Experiment(job.out_dir, job.name, yaml.safe_load(job.config), job.config)
    place.begin(job.seed)
    scores = {"micro_f1": 1 / (job.seed + 3)}
    place.finish(
        job.seed,
        {
            "method": "erm",
            "selected": 0,
            "lr": 0.01,
            "params": 1,
            "seconds": 1.0,
            "val": scores,
            "test": scores,
            "history": [EPISODE | {"val": scores, "test": scores}],
        },
    )
    return f"toy {job.seed}"


def toy_jobs(tmp_path: Path, number: int, **do) -> list[Job]:
    (tmp_path / "marks").mkdir(exist_ok=True)
    varied = {"marks": str(tmp_path / "marks"), "do": do.get("do", {})}
    return [
        Job(str(tmp_path / "out"), "toy", seed, yaml.safe_dump(TOY), store.digest(TOY), varied, {})
        for seed in range(number)
    ]


def marks(tmp_path: Path) -> list[list[str]]:
    """Seed, node, process and threads of every beginning of a run, in time."""
    found = [path.name.split("-") for path in (tmp_path / "marks").iterdir()]
    return sorted(
        ([seed, node, process, threads] for seed, node, process, _, threads in found),
        key=lambda mark: mark[0],
    )


def same(one: store.Result, other: store.Result) -> bool:
    """Whether two records are equal but for times, memory and folders."""

    def kept(result: store.Result) -> str:
        result = {
            key: value
            for key, value in result.items()
            if key not in ("seconds", "peak_memory_mib", "config", "threading", "sha256")
        }
        return json.dumps(
            result | {"history": [{**episode, "seconds": 0} for episode in result["history"]]},
            sort_keys=True,
        )

    return kept(one) == kept(other)


@pytest.fixture(scope="module")
def on_ray():
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from graphgym_srnc.sweep import on_ray

    return on_ray


@pytest.fixture(scope="module")
def cluster(on_ray, tmp_path_factory):
    """A head and a node with one core each; the driver works in another folder, so that only the
    installed package is found."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        patch.delenv("OMP_NUM_THREADS", raising=False)
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


def test_without_ray_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "graphgym_srnc.sweep.on_ray", raising=False)
    with pytest.raises(
        InputError,
        match=r"--executor: the package ray.*pip install "
        r"\"graphgym-srnc\[ray\]\"",
    ):
        importlib.import_module("graphgym_srnc.sweep.on_ray")


def test_the_page_describes_the_script():
    docs = HERE.parent / "docs"
    page = (docs / "how-to/clusters.md").read_text(encoding="utf-8")
    script = (docs / "slurm.sh").read_text(encoding="utf-8")
    assert "(../slurm.sh)" in page
    for word in ("--no-kill", "--exclusive", "hostname -I"):
        assert f"`{word}`" in page and word in script


def test_runs_come_back_and_errors_stay_with_their_run(on_ray, cluster, tmp_path, monkeypatch):
    most = []
    ready = on_ray._ready
    monkeypatch.setattr(
        on_ray,
        "_ready",
        lambda running, limits: most.append(len(running)) or ready(running, limits),
    )
    jobs = toy_jobs(tmp_path, 16, do={3: "raise", 5: "die", 6: 0.5})
    outcomes = {
        outcome.job.seed: outcome
        for outcome in on_ray.run(jobs, toy, Limits(retries=1), address=cluster.address)
    }
    assert sorted(outcomes) == list(range(16)) and max(most) == 2 * on_ray.TASKS_PER_SLOT
    assert {seed for seed, outcome in outcomes.items() if outcome.state != "done"} == {3, 5}
    assert outcomes[3].attempts == 1
    assert "ValueError: this run cannot be done" in outcomes[3].message
    assert "in toy" in outcomes[3].message
    assert outcomes[5].state == "failed" and outcomes[5].attempts == 2
    assert "died" in outcomes[5].message
    assert outcomes[6].message == "toy 6" and outcomes[6].seconds > 0.4
    begun = marks(tmp_path)
    assert {node for _, node, _, _ in begun} == {"head", "second"}
    assert {threads for *_, threads in begun} == {"1"}
    processes = {process for _, _, process, _ in begun}
    assert len(processes) <= 4, "workers serve run after run; the two that died are replaced"
    stored = store.read_results(tmp_path / "out" / "toy")
    assert sorted(stored) == sorted(set(range(16)) - {3, 5})
    assert not list((tmp_path / "out").rglob("*.tmp"))
    for job in jobs:
        if job.seed in stored:
            toy(job._replace(out_dir=str(tmp_path / "local")))
    local = store.read_results(tmp_path / "local" / "toy")
    assert all(same(stored[seed], local[seed]) for seed in stored)
    assert stored[0]["config"]["out_dir"] == str(tmp_path / "out")


def test_limits_of_time_and_memory(on_ray, connected, tmp_path):
    jobs = toy_jobs(tmp_path, 3, do={0: 600, 1: "swell"})
    begin = time.monotonic()
    outcomes = {
        outcome.job.seed: outcome for outcome in on_ray.run(jobs, toy, Limits(5.0, 600, retries=1))
    }
    assert time.monotonic() - begin < 300  # on a slow machine, and half of what one run would take
    assert outcomes[0].state == "failed" and outcomes[0].attempts == 2
    assert outcomes[0].message == "out of time: more than 5 s"
    assert outcomes[1].state == "failed" and outcomes[1].attempts == 2
    assert "600 MiB" in outcomes[1].message
    assert outcomes[2].state == "done" and list(store.read_results(tmp_path / "out" / "toy")) == [2]
    assert [seed for seed, *_ in marks(tmp_path)] == ["0", "0", "1", "1", "2"]


def test_closing_ends_what_runs(on_ray, connected, tmp_path):
    import psutil

    outcomes = on_ray.run(toy_jobs(tmp_path, 4, do={1: 600, 2: 600, 3: 600}), toy, Limits())
    assert next(outcomes).job.seed == 0
    wait_for(lambda: {"1", "2"} <= {seed for seed, *_ in marks(tmp_path)})
    workers = [int(process) for seed, _, process, _ in marks(tmp_path) if seed != "0"]
    outcomes.close()
    wait_for(lambda: not any(psutil.pid_exists(worker) for worker in workers))
    assert list(store.read_results(tmp_path / "out" / "toy")) == [0]


def test_a_real_run_equals_a_local_one(on_ray, connected, gym, tmp_path):
    from graphgym_srnc.gym import run
    from graphgym_srnc.sweep.worker import execute

    cfg = gym.load_config("testing/erm")
    cfg.out_dir = str(tmp_path / "local")
    place = run.experiment(cfg, "erm")
    job = Job(cfg.out_dir, "erm", 3, place.text, place.digest, {"seed": 3}, {"tensorboard": True})
    line = execute(job)
    remote = on_ray.run([job._replace(out_dir=str(tmp_path / "remote"))], execute, Limits())
    assert [(outcome.state, outcome.message.rsplit(",", 1)[0]) for outcome in remote] == [
        ("done", line.rsplit(",", 1)[0])
    ]
    here, there = (
        store.read_result(tmp_path / where / "erm" / "3") for where in ("local", "remote")
    )
    assert same(here, there) and there["config"]["out_dir"] == str(tmp_path / "remote")
    kinds = [
        {path.name.split(".")[0] for path in (tmp_path / where / "erm").rglob("*")}
        for where in ("local", "remote")
    ]
    assert kinds[0] == kinds[1] and "events" in kinds[1]


def test_a_node_with_another_version_is_named(on_ray, cluster, connected, tmp_path):
    fake = tmp_path / "other" / "graphgym_srnc"
    fake.mkdir(parents=True)
    real = Path(store.__file__).parent
    (fake / "__init__.py").write_text(f"__version__ = '9.9'\n__path__ = [{str(real)!r}]\n")
    path = os.pathsep.join([str(fake.parent), os.environ["PYTHONPATH"]])
    node = cluster.add_node(
        num_cpus=1, object_store_memory=80 * 2**20, env_vars={"PYTHONPATH": path}
    )
    try:
        jobs = toy_jobs(tmp_path, 6, do=dict.fromkeys(range(6), 3))
        with pytest.raises(
            InputError,
            match=rf"graphgym-srnc 9\.9 on node \S+\. Install "
            rf"{__version__}",
        ):
            list(on_ray.run(jobs, toy, Limits()))
    finally:
        cluster.remove_node(node)


class Absent:
    """What a node unpickles that lacks a package."""

    def __reduce__(self):
        return importlib.import_module, ("package_that_is_absent",)


def test_a_node_without_the_package_is_named(on_ray, connected, tmp_path):
    with pytest.raises(
        InputError,
        match=rf"ray \(.*ip=.*No module named "
        rf"'package_that_is_absent'.*graphgym-srnc {__version__}",
    ):
        list(on_ray.run(toy_jobs(tmp_path, 3), Absent(), Limits()))


def test_what_no_node_has_is_refused(on_ray, connected, tmp_path):
    for resources in ({"cpus": 2}, {"gpus": 1}, {"memory_mib": 2**30}, {"cpus": 0}, {"cpus": 1.5}):
        with pytest.raises(InputError, match="resources of a run"):
            list(on_ray.run(toy_jobs(tmp_path, 1), toy, Limits(), **resources))
    assert not marks(tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there(on_ray, tmp_path, monkeypatch, address):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(InputError, match="--ray-address"):
        list(on_ray.run(toy_jobs(tmp_path, 1), toy, Limits(), address=address))


def test_a_node_dies(on_ray, cluster, connected, tmp_path):
    """Last, since the node is gone afterwards."""
    jobs = toy_jobs(tmp_path, 4, do=dict.fromkeys(range(4), 4))
    killed = []

    def kill() -> None:
        wait_for(lambda: any(node == "second" for _, node, _, _ in marks(tmp_path)))
        killed.extend(seed for seed, node, _, _ in marks(tmp_path) if node == "second")
        cluster.remove_node(cluster.second, allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    outcomes = {outcome.job.seed: outcome for outcome in on_ray.run(jobs, toy, Limits(retries=1))}
    thread.join()
    begun = [int(seed) for seed, *_ in marks(tmp_path)]
    assert sorted(outcomes) == list(range(4))
    assert {outcome.state for outcome in outcomes.values()} == {"done"}
    assert len(killed) == 1
    assert sorted(begun) == sorted([*range(4), int(killed[0])]), "that run alone is done twice"
    assert {seed for seed, outcome in outcomes.items() if outcome.attempts == 2} == {int(killed[0])}
    stored = store.read_results(tmp_path / "out" / "toy")
    assert sorted(stored) == list(range(4))
    for job in jobs:
        toy(
            job._replace(out_dir=str(tmp_path / "local"), varied={"marks": str(tmp_path / "marks")})
        )
    assert all(
        same(stored[seed], result)
        for seed, result in store.read_results(tmp_path / "local" / "toy").items()
    )


@pytest.fixture
def packed(tmp_path) -> tuple[Job, dict[str, bytes]]:
    """A job, and its run as the files that come back."""
    job = toy_jobs(tmp_path, 1)[0]
    toy(job._replace(out_dir=str(tmp_path / "node")))
    (tmp_path / "node" / "toy" / "0" / "link").symlink_to("/etc/hostname")
    return job, packing.pack(tmp_path / "node" / "toy" / "0")


def test_packed_files_are_plain_ones(packed):
    assert sorted(packed[1]) == [
        "result.json",
        "run.json",
        "test/stats.json",
        "train/stats.json",
        "val/stats.json",
    ]


def test_too_many_bytes_are_not_sent(tmp_path, monkeypatch):
    (tmp_path / "events").write_bytes(bytes(3 * 2**20))
    monkeypatch.setattr(packing, "MAX_MIB", 2)
    with pytest.raises(InputError, match="3 MiB of files.*at most 2 MiB"):
        packing.pack(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/evil",
        "../evil",
        "val/../../evil",
        "val//evil",
        "",
        ".",
        "val/",
        "C:evil",
        "..\\evil",
        "evil\n",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(packed, tmp_path, name):
    job, files = packed
    with pytest.raises(InputError, match="is not a file in the folder"):
        packing.unpack(job, files | {name: b"evil"})
    assert not (tmp_path / "out").exists() and not list(tmp_path.rglob("*evil*"))


def test_only_a_finished_run_of_the_config_is_stored(packed, tmp_path):
    job, files = packed
    forged = json.loads(files["result.json"])
    forged["config"]["train"]["mode"] = "iid"
    other = forged | {"digest": store.digest(forged["config"])}
    for result in (None, forged, other, json.loads(files["result.json"]) | {"seed": 1}):
        bad = {name: content for name, content in files.items() if name != "result.json"}
        if result is not None:
            bad["result.json"] = json.dumps(result).encode()
        with pytest.raises(InputError, match="not a finished run of the config of toy"):
            packing.unpack(job, bad)
    assert not (tmp_path / "out" / "toy" / "0").exists()
    packing.unpack(job, files)
    stored = (tmp_path / "out" / "toy" / "0" / "result.json").read_bytes()
    packing.unpack(job, files | {"val/stats.json": b"late"})
    assert (tmp_path / "out" / "toy" / "0" / "result.json").read_bytes() == stored
    assert (tmp_path / "out" / "toy" / "0" / "val" / "stats.json").read_bytes() == files[
        "val/stats.json"
    ]


def test_a_run_that_another_process_holds_is_not_touched(packed, tmp_path):
    job, files = packed
    with store.Experiment(tmp_path / "out", "toy", TOY).claim(0), pytest.raises(store.Busy):
        packing.unpack(job, files)
    assert not (tmp_path / "out" / "toy").exists()


def test_each_node_reads_its_own_data(monkeypatch):
    def folder(dataset_dir: str, drivers: str) -> str:
        text = yaml.safe_dump(TOY | {"dataset": {"dir": dataset_dir}})
        return yaml.safe_load(ray_task._local(text, drivers))["dataset"]["dir"]

    monkeypatch.delenv("GRAPHGYM_SRNC_DATA", raising=False)
    assert folder("/driver", "/driver") == "/driver"
    monkeypatch.setenv("GRAPHGYM_SRNC_DATA", "/node")
    assert folder("/driver", "/driver") == "/node"
    assert folder("/chosen", "/driver") == "/chosen", (
        "a folder that the config names is meant for all nodes"
    )


def test_nodes_with_other_data_are_refused(gym, tmp_path, monkeypatch):
    """One with half of the edges, by what each tells of its data before a run."""
    from graphgym_srnc.gym import run
    from graphgym_srnc.sweep import plan
    from graphgym_srnc.sweep.worker import _fingerprints, data_of

    words = [
        "dataset.format",
        "file",
        "dataset.name",
        "graph.npz",
        "file.num_val",
        "20",
        "file.num_test",
        "30",
        "file.labels_per_class",
        "3",
        "train.mode",
        "erm",
    ]
    answers = []
    for node, edges in (("one", 400), ("two", 400), ("three", 200)):
        graph = make_graph()
        (tmp_path / node).mkdir()
        np.savez(
            tmp_path / node / "graph.npz",
            x=graph.x,
            y=graph.y,
            edge_index=graph.edge_index[:, :edges],
        )
        cfg = gym.load_config(None, [*words, "dataset.dir", "/driver", "out_dir", str(tmp_path)])
        place = run.experiment(cfg, "erm")
        job = Job(str(tmp_path), "erm", 3, place.text, place.digest, {}, {}, data_seed=1)
        monkeypatch.setenv("GRAPHGYM_SRNC_DATA", str(tmp_path / node))
        _fingerprints.clear()
        name, _, data = next(ray_task.work(None, job, 0, "/driver", data_of))
        assert name and data
        answers.append(data)
    (name, split), (_, same_split), (_, other_split) = answers
    known = {}
    ray_task.check_same(known, "one", name, split)
    ray_task.check_same(known, "two", name, same_split)
    with pytest.raises(InputError, match="dataset.dir.*on node three.*of node one"):
        ray_task.check_same(known, "three", name, other_split)
    (tmp_path / "three" / "graph.npz").unlink()
    _fingerprints.clear()
    assert next(ray_task.work(None, job, 0, "/driver", data_of))[2] is None

    exp = run.experiment(cfg, "erm")
    exp.begin(1)
    exp.finish(1, record([0.5]) | {"split": split})
    cells = [plan.Cell(cfg, exp, range(4), [0, 2, 3])]
    assert plan.known_data(cells) == {name: split}
    assert {job.data_seed for job in plan.jobs(cells, {})} == {1}


def wait_for(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)

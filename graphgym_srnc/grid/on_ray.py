"""Runs on a Ray cluster: each is a task of Ray, and its files come back with the result, so that no file system need be shared."""
from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import tempfile
import threading
import time
import traceback
from collections import deque
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from graphgym_srnc import __version__, atomic, store
from graphgym_srnc.errors import InputError
from graphgym_srnc.grid.jobs import Execute, Job, Limits, Outcome

try:
    import ray
except ImportError as error:
    raise InputError("--executor", "ray", 'local; or ray, after pip install "graphgym-srnc[ray]"') from error

DATA_DIR = "GRAPHGYM_SRNC_DATA"
"""Environment variable that holds the folder of data sets."""

AHEAD = 2
"""Tasks in Ray's hands for each that the cluster has room for: the next is there when one ends, and the rest of a grid is not."""

LOOK_EVERY = 5.0
"""Seconds after which new nodes are noticed while no run ends."""

WATCH_EVERY = 0.2
"""Seconds between two looks of a worker at its memory."""

GRACE = 1.0
"""Seconds for cancelled runs to end by themselves."""

MOST_MIB = 256
"""What the files of a run may hold to be sent."""


class Share(NamedTuple):
    """What a run takes of a node."""

    cpus: float
    gpus: float
    memory_mib: float

    def fits(self, resources: Mapping[str, float]) -> int:
        """How many runs a node with such resources, by Ray's names, takes at once."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory_mib * 2 ** 20}
        return min(int(resources.get(name, 0.0) / amount) for name, amount in wanted.items() if amount)

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs, {self.gpus:g} GPUs, {self.memory_mib:.0f} MiB"


class Try(NamedTuple):
    """A run in Ray's hands: which try it is, and when it began, by ``time.monotonic``; None while it waits for a node."""

    job: Job
    number: int
    begin: float | None = None

    def late(self, limits: Limits) -> bool:
        """Whether it is out of time."""
        return bool(limits.seconds) and self.begin is not None and time.monotonic() - self.begin > limits.seconds


def run(jobs: Sequence[Job], execute: Execute, limits: Limits, *, address: str = "auto", cpus: float = 1.0, gpus: float = 0.0,
        memory_mib: float = 0.0) -> Iterator[Outcome]:
    """Run jobs on the nodes of a Ray cluster; see :data:`graphgym_srnc.grid.jobs.Executor`.

    Ray places the tasks, notices dead nodes and ends what is cancelled. Tries are counted here: those of Ray do not tell when they
    begin, and have no end for a run that is out of memory each time.

    Args:
        jobs: what to run.
        execute: runs one of them; a function that a process on another node can import.
        limits: what each run may take.
        address: the cluster, as ``ray.init`` takes it; where the caller is connected already, that cluster.
        cpus: cores that a run takes of its node.
        gpus: GPUs that it takes.
        memory_mib: memory that it takes; 0 = ``limits.memory_mib``.

    Raises:
        InputError: there is no such cluster, no node has room for a run, or a node has another version of this package.
    """
    share = Share(cpus, gpus, memory_mib or limits.memory_mib)
    data_dir = os.environ.get(DATA_DIR) or "./datasets"
    waiting, flying = deque(Try(job, 1) for job in jobs), {}
    with _connected(address):
        task = _task(share)
        try:
            while waiting or flying:
                most = max(1, AHEAD * _slots(share))
                while waiting and len(flying) < most:
                    turn = waiting.popleft()
                    if not turn.job.overwrite and _finished(turn.job):
                        yield Outcome(turn.job, "done", 0.0, f"seed {turn.job.seed}: was finished by another process", turn.number)
                    else:
                        flying[task.remote(execute, turn.job, limits.memory_mib, data_dir)] = turn
                for stream in _news(flying, limits):
                    turn = flying[stream]
                    outcome, again = _hear(stream, turn, limits)
                    if outcome is None:
                        flying[stream] = turn._replace(begin=time.monotonic())
                        continue
                    del flying[stream]
                    if again and turn.number <= limits.retries:
                        waiting.appendleft(Try(turn.job, turn.number + 1))
                    else:
                        yield outcome
        finally:
            _end(list(flying))


def store_packed(job: Job, files: Mapping[str, bytes]) -> None:
    """Store a run that came as the files of its directory, by relative path, unless it is stored already.

    Raises:
        store.Busy: another process is at it.
        InputError: a path leads elsewhere, or the files are not those of a finished run of the job's config.
    """
    from graphgym_srnc.gym import parse_config
    from graphgym_srnc.runs import run as runs
    for name in files:
        if any(part in ("", ".", "..") or not part.isprintable() or set(part) & set('\\:*?"<>|') for part in name.split("/")):
            raise InputError("path", name, f"plain names, below the directory of {job.name}, seed {job.seed}")
    cfg = parse_config(job.config)
    cfg.out_dir = job.out_dir
    place = runs.experiment(cfg, job.name)
    with tempfile.TemporaryDirectory() as folder, place.claim(job.seed):
        found = Path(folder, str(job.seed))
        for name, content in files.items():
            (found / name).parent.mkdir(parents=True, exist_ok=True)
            (found / name).write_bytes(content)
        result = store.read_result(found)
        if result is not None:
            # Equal but for the folders, which were those of the node; were it another config, its digest would tell.
            atomic.write_text(found / "result.json", json.dumps(result | {"config": place.config}, indent=1) + "\n", durable=False)
        if job.overwrite or place.result(job.seed) is None:
            place.adopt(job.seed, found)


def pack(directory: Path) -> dict[str, bytes]:
    """The files of a run by relative path; links are left out.

    Raises:
        InputError: they are too large to be sent.
    """
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in paths) / 2 ** 20
    if size > MOST_MIB:
        raise InputError("run", f"{size:.0f} MiB of files", f"at most {MOST_MIB} MiB on a cluster")
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        if port.isdecimal():
            # Ray goes on trying for many minutes.
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise InputError("--ray-address", address, f"a running Ray cluster of which this machine is a node ({error})") from error
    try:
        yield
    finally:
        ray.shutdown()


def _task(share: Share) -> Any:
    """The task of Ray that a run is; it answers twice, when it begins and when it ends."""
    if share.cpus <= 0 or min(share) < 0 or any(amount > 1 and amount % 1 for amount in share[:2]):
        raise InputError("resources of a run", str(share), "CPUs above 0 and GPUs from 0, whole numbers or below 1")
    if not _slots(share):
        offers = "; ".join(f"{node['NodeManagerHostname']}: {_offer(node)}" for node in _nodes())
        raise InputError("resources of a run", str(share), f"what one node of the cluster has ({offers})")
    return ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, memory=int(share.memory_mib * 2 ** 20), max_retries=0,
                      num_returns="streaming")(_work)


def _nodes() -> list[Mapping[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _offer(node: Mapping[str, Any]) -> Share:
    resources = node["Resources"]
    return Share(resources.get("CPU", 0), resources.get("GPU", 0), resources.get("memory", 0) / 2 ** 20)


def _slots(share: Share) -> int:
    return sum(share.fits(node["Resources"]) for node in _nodes())


def _finished(job: Job) -> bool:
    result = store.read_result(Path(job.out_dir, job.name, str(job.seed)))
    return result is not None and result["digest"] == job.digest


def _news(flying: Mapping[Any, Try], limits: Limits) -> list[Any]:
    """The tasks that have answered or are out of time, once there are some or it is time to look for new nodes."""
    if not flying:
        return []
    left = [turn.begin + limits.seconds - time.monotonic() for turn in flying.values() if limits.seconds and turn.begin is not None]
    ray.wait(list(flying), timeout=max(0.0, min([LOOK_EVERY, *left])))
    ready, silent = ray.wait(list(flying), num_returns=len(flying), timeout=0)
    return ready + [stream for stream in silent if flying[stream].late(limits)]


def _hear(stream: Any, turn: Try, limits: Limits) -> tuple[Outcome | None, bool]:
    """What has become of a try, None if it has begun, and whether it may be tried again."""
    def failed(seconds: float, story: str) -> tuple[Outcome, bool]:
        return Outcome(turn.job, "failed", seconds, story, turn.number), True

    if turn.late(limits) and not ray.wait([stream], timeout=0)[0]:
        ray.cancel(stream, force=True)
        return failed(limits.seconds, f"out of time: more than {limits.seconds:g} s")
    try:
        told = ray.get(next(stream))
    except ray.exceptions.RayTaskError as error:
        # What a run raises is told as text. This is a node that cannot even begin one, and would spoil run after run.
        told = str(error).strip().splitlines()
        raise InputError("--executor", f"ray ({told[0]} {told[-1]})", f"graphgym-srnc {__version__}, as here, on every node") from error
    except ray.exceptions.RayError as error:
        limit = f"; one that outgrows {limits.memory_mib:g} MiB is ended" * bool(limits.memory_mib)
        return failed(0.0, f"its process or its node died: {error}{limit}")
    if turn.begin is None:
        node, version = told
        if version != __version__:
            raise InputError("--executor", f"ray with graphgym-srnc {version} on node {node}", f"{__version__}, as here, on every node")
        return None, False
    state, seconds, story, files = told
    if state == "done":
        try:
            store_packed(turn.job, files)
        except store.Busy as error:
            state, story = "busy", str(error)
        except (InputError, OSError):
            state, story = "failed", traceback.format_exc()
    return Outcome(turn.job, state, seconds, story, turn.number), False


def _end(streams: list[Any]) -> None:
    """Cancel tasks: kindly at first, so that they remove their temporary folders, then by force."""
    for stream in streams:
        ray.cancel(stream)
    if streams:
        # To be waited for in Ray's ways they would have to be heard to the end, which may never come.
        time.sleep(GRACE)
    for stream in streams:
        ray.cancel(stream, force=True)


def _work(execute: Execute, job: Job, memory_mib: float, data_dir: str) -> Iterator[tuple]:
    """On a node: tell its name and version at once; then run, and tell state, seconds, story and files."""
    yield platform.node(), __version__
    begin, files = time.monotonic(), {}
    try:
        with tempfile.TemporaryDirectory(prefix="graphgym-srnc-") as folder, _guarded(memory_mib):
            story = execute(job._replace(out_dir=folder, config=_at_home(job.config, data_dir)))
            state, files = "done", pack(Path(folder, job.name, str(job.seed)))
    except Exception:
        state, story = "failed", traceback.format_exc()
    yield state, time.monotonic() - begin, story, files


def _at_home(config: str, data_dir: str) -> str:
    """A config with this node's own folder of data sets, where it has one and the driver's is no setting of the config."""
    here = os.environ.get(DATA_DIR)
    if not here or here == data_dir:
        return config
    from graphgym_srnc.gym.config import dump_config, parse_config
    cfg = parse_config(config)
    if cfg.dataset.dir == data_dir:
        cfg.dataset.dir = here
    return dump_config(cfg)


@contextlib.contextmanager
def _guarded(memory_mib: float) -> Iterator[None]:
    """End this process if it outgrows its memory meanwhile."""
    import psutil
    process, over = psutil.Process(), threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_EVERY):
            if process.memory_info().rss > memory_mib * 2 ** 20:
                os._exit(1)

    if memory_mib:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()

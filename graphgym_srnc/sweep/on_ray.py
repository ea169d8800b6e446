"""Runs on a Ray cluster. Each run is a Ray task that returns its folder, so that the nodes need no
shared file system."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import shutil
import signal
import socket
import tarfile
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Generator, Iterator, Mapping, Sequence

from graphgym_srnc import __version__
from graphgym_srnc.errors import InputError
from graphgym_srnc.sweep.jobs import DataOf, Execute, Job, Limits, Outcome, attempt

try:
    import ray
except ImportError as error:
    hint = 'Install it with: pip install "graphgym-srnc[ray]"'
    raise InputError.plain("--executor", "the package ray is not installed", hint) from error

DATA_DIR = "GRAPHGYM_SRNC_DATA"
"""Environment variable that holds the folder of data sets."""

MAX_MIB = 256
"""Maximum size of the files of a run."""

IN_FLIGHT = 1000
"""Tasks that Ray has at a time. It places them; the rest of a grid waits here."""

POLL_SECONDS = 0.2
"""Seconds between two looks of a task at its time and memory."""

CANCEL_SECONDS = 1.0
"""Seconds for cancelled runs to end by themselves."""


def run(
    jobs: Sequence[Job],
    execute: Execute,
    limits: Limits,
    *,
    address: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
    data_of: DataOf | None = None,
    known: Mapping[str, str] | None = None,
) -> Generator[Outcome, None, None]:
    """Run jobs on the nodes of a Ray cluster; see :data:`graphgym_srnc.sweep.jobs.Executor`.

    Retries are counted here: Ray's own never end for a run that is always out of memory.

    Args:
        jobs: The runs.
        execute: Runs one of them; a function that a process on another node can import.
        limits: Limits of a run. Ray reserves the memory.
        address: The cluster, as ``ray.init`` takes it.
        cpus, gpus: CPUs and GPUs of a run.
        data_of: Computes the fingerprint of a run's data on its node. None = no comparison.
        known: Fingerprints by name of the data, from finished runs; of others the first node's.

    Raises:
        InputError: There is no such cluster, no node is large enough for a run, or a node has
            another version of this package or other data.
    """
    data = {name: (split, "finished runs") for name, split in (known or {}).items()}
    data_dir = os.environ.get(DATA_DIR) or "./datasets"
    waiting = deque((job, 1) for job in jobs)
    running: dict[Any, tuple[Job, int]] = {}
    with _connected(address):
        _check_resources(cpus, gpus, limits.memory_mib)
        task = ray.remote(
            num_cpus=cpus, num_gpus=gpus, memory=int(limits.memory_mib * 2**20), max_retries=0
        )(_work)
        try:
            while waiting or running:
                while waiting and len(running) < IN_FLIGHT:
                    job, number = waiting.popleft()
                    answer = task.remote(__version__, execute, job, limits, data_dir, data_of)
                    running[answer] = job, number
                ready, _ = ray.wait(list(running))
                job, number = running.pop(ready[0])
                try:
                    state, seconds, message = _receive(ready[0], job, data)
                except ray.exceptions.RayTaskError as error:
                    # What a run raises comes as text. This node cannot even begin one.
                    lines = str(error).strip().splitlines()
                    message = f"a node of the cluster cannot start a run ({lines[0]} {lines[-1]})"
                    hint = f"Install graphgym-srnc {__version__}, as here, on every node"
                    raise InputError.plain("--executor", message, hint) from error
                except ray.exceptions.RayError as error:
                    if number <= limits.retries:
                        waiting.appendleft((job, number + 1))
                        continue
                    state, seconds, message = "failed", 0.0, f"its process or node died: {error}"
                    if limits.seconds or limits.memory_mib:
                        message += f"; its limits are {limits.seconds:g} s and "
                        message += f"{limits.memory_mib:g} MiB (0 = none)"
                yield Outcome(job, state, seconds, message, number)
        finally:
            _cancel(list(running))


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    host, _, port = address.rpartition(":")
    before = signal.getsignal(signal.SIGTERM)
    try:
        if port.isdecimal():
            # Ray goes on trying for many minutes.
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        with contextlib.suppress(ValueError):  # outside the main thread
            signal.signal(signal.SIGTERM, before)  # Ray's own would end the command at once
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        message = f"no Ray cluster answers at {address} ({error})"
        hint = "Start Ray on this machine, or give the address of a cluster it belongs to"
        raise InputError.plain("--ray-address", message, hint) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_resources(cpus: float, gpus: float, memory_mib: float) -> None:
    """Refuse a run for which no node is large enough, since Ray would wait for one for ever."""
    wanted = {"CPU": cpus, "GPU": gpus, "memory": memory_mib * 2**20}
    if cpus <= 0 or gpus < 0 or any(amount > 1 and amount % 1 for amount in (cpus, gpus)):
        allowed = "CPUs above 0 and GPUs from 0, whole numbers or below 1"
        raise InputError("resources of a run", _words(wanted), allowed)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(key, 0) >= wanted[key] for key in wanted) for node in nodes):
        message = f"no node has {_words(wanted)}; the nodes have {', '.join(map(_words, nodes))}"
        raise InputError.plain("resources of a run", message, "Ask for less")


def _words(has: Mapping[str, float]) -> str:
    cpus, gpus, memory = (has.get(key, 0.0) for key in ("CPU", "GPU", "memory"))
    return f"{cpus:g} CPUs, {gpus:g} GPUs and {memory / 2**20:.0f} MiB"


def _receive(answer: Any, job: Job, data: dict[str, tuple[str, str]]) -> tuple[str, float, str]:
    """Store the run that a task returned; return state, seconds and message of its outcome.

    ``data`` has fingerprint and origin by name of the data, and grows.
    """
    node, found, (state, seconds, message), archive = ray.get(answer)
    if found is not None:
        name, split = found
        expected, origin = data.setdefault(name, (split, f"node {node}"))
        if split != expected:
            text = (
                f"the data on node {node} (split {split[:12]}) differ from those of {origin} "
                f"(split {expected[:12]})"
            )
            raise InputError.plain("dataset.dir", text, "Copy the same data to every node")
    if state == "done":
        state, _, text = attempt(lambda: unpack(job, archive))
        message = message if state == "done" else text
    return state, seconds, message


def _cancel(answers: Sequence[Any]) -> None:
    """Cancel tasks: first so that they can remove their temporary folders, then by force."""
    for force in (False, True) if answers else ():
        for answer in answers:
            ray.cancel(answer, force=force)
        time.sleep(CANCEL_SECONDS * (not force))


def _work(
    version: str,
    execute: Execute,
    job: Job,
    limits: Limits,
    data_dir: str,
    data_of: DataOf | None = None,
) -> tuple[str, tuple[str, str] | None, tuple[str, float, str], bytes]:
    """Run a job on a node of a cluster.

    Returns:
        The name of the node; name and fingerprint of the data, None if they cannot be read, as the
        run will say; state, seconds and message of the outcome; and the folder of the run.

    Raises:
        RuntimeError: The node has another version of this package than the driver.
    """
    node = platform.node()
    if version != __version__:
        raise RuntimeError(f"graphgym-srnc {__version__} is installed on node {node}")
    data, archive = None, b""

    def run() -> str:
        nonlocal archive
        message = execute(job)
        archive = pack(Path(job.out_dir, job.name, str(job.seed)))
        return message

    with tempfile.TemporaryDirectory(prefix="graphgym-srnc-") as folder, _limited(limits, folder):
        job = job._replace(out_dir=folder, data_dir=(data_dir, os.environ.get(DATA_DIR, "")))
        if data_of is not None:
            with contextlib.suppress(Exception):
                data = data_of(job)
        outcome = attempt(run)
    return node, data, outcome, archive


@contextlib.contextmanager
def _limited(limits: Limits, folder: str) -> Iterator[None]:
    """End this process, and remove a folder, if this block takes too much time or memory."""
    import psutil

    process, begin, over = psutil.Process(), time.monotonic(), threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            late = 0 < limits.seconds < time.monotonic() - begin
            if late or 0 < limits.memory_mib * 2**20 < process.memory_info().rss:
                shutil.rmtree(folder, ignore_errors=True)
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def pack(folder: Path) -> bytes:
    """The folder of a run as a tar archive.

    Raises:
        InputError: Its files are too large to be sent.
    """
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    if size > MAX_MIB:
        message = f"it wrote {size:.0f} MiB of files; a cluster accepts at most {MAX_MIB} MiB"
        raise InputError.plain("run", message)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, folder.name)
    return buffer.getvalue()


def unpack(job: Job, archive: bytes) -> str:
    """Store the folder of a run, unless the run is stored already; return where.

    Raises:
        store.Busy: Another process holds the run.
        InputError: It is not a finished run of the job's config.
        tarfile.TarError: It is no archive, or a file in it leads out of the folder.
    """
    from graphgym_srnc.gym import parse_config, run

    cfg = parse_config(job.config)
    cfg.out_dir = job.out_dir
    experiment = run.experiment(cfg, job.name)
    with (
        tempfile.TemporaryDirectory() as folder,
        experiment.claim(job.seed, job.overwrite) as finished,
    ):
        if finished is None:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
            experiment.adopt(job.seed, Path(folder, str(job.seed)))
    return str(experiment.path)

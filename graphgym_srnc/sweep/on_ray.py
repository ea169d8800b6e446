"""Runs on a Ray cluster. Each run is a Ray task that returns its folder, so that the nodes need no
shared file system."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import signal
import socket
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Generator, Iterator, Mapping, Sequence

from graphgym_srnc import __version__
from graphgym_srnc.errors import InputError
from graphgym_srnc.sweep import local
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

CANCEL_SECONDS = 1.0
"""Seconds for cancelled runs to end by themselves."""

_idle: list[Any] = []
"""Worker processes of a process of Ray, which wait for its next task."""


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
    with _connected(address):
        _check_resources(cpus, gpus, limits.memory_mib)
        # Retries after a node died are counted here: Ray's own never end for want of memory.
        task = ray.remote(
            num_cpus=cpus, num_gpus=gpus, memory=int(limits.memory_mib * 2**20), max_retries=0
        )(_work)

        def start(job: Job, number: int) -> tuple[Any, tuple[Job, int]]:
            return task.remote(__version__, execute, job, limits, data_dir, data_of), (job, number)

        running = dict(start(job, 1) for job in jobs)
        try:
            while running:
                answer = ray.wait(list(running))[0][0]
                job, number = running.pop(answer)
                try:
                    outcome = _receive(answer, job, data)
                except ray.exceptions.RayTaskError as error:
                    # What a run raises comes as text. This node cannot even begin one.
                    lines = str(error).strip().splitlines()
                    message = f"a node of the cluster cannot start a run ({lines[0]} {lines[-1]})"
                    hint = f"Install graphgym-srnc {__version__}, as here, on every node"
                    raise InputError.plain("--executor", message, hint) from error
                except ray.exceptions.RayError as error:
                    if number <= limits.retries:
                        running |= [start(job, number + 1)]
                        continue
                    outcome = Outcome(job, "failed", message=f"its node died: {error}")
                yield outcome._replace(attempts=outcome.attempts + number - 1)
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
    words = f"{cpus:g} CPUs, {gpus:g} GPUs and {memory_mib:g} MiB"
    if cpus <= 0 or gpus < 0 or any(amount > 1 and amount % 1 for amount in (cpus, gpus)):
        allowed = "CPUs above 0 and GPUs from 0, whole numbers or below 1"
        raise InputError("resources of a run", words, allowed)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(key, 0) >= wanted[key] for key in wanted) for node in nodes):
        hint = "Ask for less; `ray status` shows what the cluster has"
        raise InputError.plain("resources of a run", f"no node has {words}", hint)


def _receive(answer: Any, job: Job, data: dict[str, tuple[str, str]]) -> Outcome:
    """Store the run that a task returned.

    ``data`` has fingerprint and origin by name of the data, and grows.
    """
    node, found, outcome, archive = ray.get(answer)
    if found is not None:
        name, split = found
        expected, origin = data.setdefault(name, (split, f"node {node}"))
        if split != expected:
            text = (
                f"the data on node {node} (split {split[:12]}) differ from those of {origin} "
                f"(split {expected[:12]})"
            )
            raise InputError.plain("dataset.dir", text, "Copy the same data to every node")
    if outcome.state == "done":
        state, _, text = attempt(lambda: unpack(job, archive))
        outcome = outcome._replace(
            state=state, message=outcome.message if state == "done" else text
        )
    return outcome._replace(job=job)


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
) -> tuple[str, tuple[str, str] | None, Outcome, bytes]:
    """Run a job on a node of a cluster, as a grid on this machine does.

    Returns:
        The name of the node; name and fingerprint of the data, None if they cannot be read, as the
        run will say; the outcome; and the folder of the run.

    Raises:
        RuntimeError: The node has another version of this package than the driver.
    """
    node, data, archive = platform.node(), None, b""
    if version != __version__:
        raise RuntimeError(f"graphgym-srnc {__version__} is installed on node {node}")
    with tempfile.TemporaryDirectory(prefix="graphgym-srnc-") as folder:
        job = job._replace(out_dir=folder, data_dir=(data_dir, os.environ.get(DATA_DIR, "")))
        if data_of is not None:
            with contextlib.suppress(Exception):
                data = data_of(job)
        (outcome,) = local.run([job], execute, limits, 1, _idle)
        if outcome.state == "done":
            try:
                archive = pack(Path(folder, job.name, str(job.seed)))
            except InputError as error:
                outcome = outcome._replace(state="failed", message=str(error))
    return node, data, outcome, archive


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
    from graphgym_srnc.gym import run

    experiment = run.experiment(job.cfg, job.name)
    with (
        tempfile.TemporaryDirectory() as folder,
        experiment.claim(job.seed, job.overwrite) as finished,
    ):
        if finished is None:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
            experiment.adopt(job.seed, Path(folder, str(job.seed)))
    return str(experiment.path)

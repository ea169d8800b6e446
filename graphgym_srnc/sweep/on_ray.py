"""Runs on a Ray cluster. Each run is a Ray task that returns its folder, so that the nodes need no
shared file system."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import socket
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Generator, Iterator, Sequence

from graphgym_srnc import __version__
from graphgym_srnc.core import environment
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import run as gym_run
from graphgym_srnc.sweep import local, worker
from graphgym_srnc.sweep.jobs import Execute, Job, Limits, Outcome, attempt

try:
    import ray
except ImportError as error:
    hint = 'Install it with: pip install "graphgym-srnc[ray]"'
    message = "the package ray is not installed"
    raise InputError.plain("executor", message, hint) from error

MAX_MIB = 256  # maximum size of the files of a run
CANCEL_SECONDS = 1.0  # seconds for cancelled runs to end by themselves

_idle: list[Any] = []  # worker processes of a process of Ray, which wait for its next task


def run(
    jobs: Sequence[Job],
    execute: Execute,
    limits: Limits,
    *,
    address: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
) -> Generator[Outcome, None, None]:
    """Run jobs on the nodes of a Ray cluster; see ``jobs.Executor``.

    ``execute`` is a function that a process on another node can import, ``address`` is what
    ``ray.init`` takes, and ``cpus`` and ``gpus`` are those of a run. An InputError says that there
    is no such cluster, no node is large enough for a run, or a node has another version.
    """
    with _connected(address):
        _check_resources(cpus, gpus)
        # Retries after a node died are counted here: Ray's own never end for want of memory.
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_work)

        def start(job: Job, number: int) -> None:
            running[task.remote(__version__, execute, job, limits)] = (job, number)

        running: dict[Any, tuple[Job, int]] = {}
        for job in jobs:
            start(job, 1)
        try:
            while running:
                answer = ray.wait(list(running))[0][0]
                job, number = running.pop(answer)
                try:
                    outcome = _stored(job, *_answer(answer))
                except ray.exceptions.RayError as error:
                    if number <= limits.retries:
                        start(job, number + 1)
                        continue
                    outcome = Outcome(job, "failed", message=f"its node died: {error}")
                yield outcome._replace(job=job, attempts=outcome.attempts + number - 1)
        finally:
            _cancel([*running])


def _answer(answer: Any) -> tuple[str, Outcome, bytes]:
    """What a node returned, see ``_work``; a RayError says that the node died."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        # What a run raises comes as text. This node cannot even begin one.
        lines = str(error).strip().splitlines()
        raise InputError.plain(
            "executor",
            f"a node of the cluster cannot start a run ({lines[0]} {lines[-1]})",
            f"Install graphgym-srnc {__version__}, as here, on every node",
        ) from error


def _stored(job: Job, node: str, outcome: Outcome, archive: bytes) -> Outcome:
    """The outcome after a finished run has been stored here."""
    if outcome.state != "done":
        return outcome
    state, text = attempt(partial(unpack, job, archive))
    message = outcome.message if state == "done" else f"{text.rstrip()} ({node})"
    return outcome._replace(state=state, message=message)


def _cancel(running: Sequence[Any]) -> None:
    """End runs: first so that tasks can remove their temporary folders, then by force."""
    if not running:
        return
    for answer in running:
        ray.cancel(answer)
    time.sleep(CANCEL_SECONDS)
    for answer in running:
        ray.cancel(answer, force=True)


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
        with environment.outside():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise InputError.plain(
            "address",
            f"no Ray cluster answers at {address} ({error})",
            "Start Ray on this machine, or give the address of a cluster it belongs to",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_resources(cpus: float, gpus: float) -> None:
    """Refuse a run for which no node is large enough, since Ray would wait for one for ever."""
    words = f"{cpus:g} CPUs and {gpus:g} GPUs"
    if cpus <= 0 or gpus < 0 or any(amount > 1 and amount % 1 for amount in (cpus, gpus)):
        raise InputError(
            "resources of a run", words, "CPUs above 0 and GPUs from 0, whole numbers or below 1"
        )
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        raise InputError.plain(
            "resources of a run",
            f"no node has {words}",
            "Ask for less; `ray status` shows what the cluster has",
        )


def _work(version: str, execute: Execute, job: Job, limits: Limits) -> tuple[str, Outcome, bytes]:
    """Run a job on a node of a cluster, as a grid on this machine does.

    Returns the name of the node, the outcome, and the folder of the run as a tar archive.
    """
    node = f"node {platform.node()}"
    if version != __version__:
        raise RuntimeError(f"graphgym-srnc {__version__} is installed on {node}")
    cfg = job.cfg.clone()
    buffer = io.BytesIO()
    cfg.dataset.dir = os.environ.get("GRAPHGYM_SRNC_DATA") or cfg.dataset.dir
    with tempfile.TemporaryDirectory(prefix="graphgym-srnc-") as folder:
        (outcome,) = local.run([job._replace(out_dir=folder, cfg=cfg)], execute, limits, 1, _idle)
        if outcome.state == "done":
            with tarfile.open(fileobj=buffer, mode="w") as archive:
                archive.add(Path(folder, job.name, str(job.seed)), str(job.seed))
    size = buffer.tell() / 2**20
    if size > MAX_MIB:
        message = f"it wrote {size:.0f} MiB of files; a cluster accepts at most {MAX_MIB} MiB"
        return node, outcome._replace(state="failed", message=message), b""
    return node, outcome, buffer.getvalue()


def unpack(job: Job, archive: bytes) -> str:
    """Store the folder of a run, unless the run is stored already; return where.

    An archive is refused if it contains anything but plain files of the run, or if the run is of
    another config or used other data than this machine has.
    """
    experiment = gym_run.experiment(job.cfg, job.name)
    with (
        tempfile.TemporaryDirectory() as folder,
        experiment.claim(job.seed, job.overwrite) as finished,
    ):
        if finished is None:
            _extract(archive, folder)
            experiment.adopt(job.seed, Path(folder, str(job.seed)), worker.split_of(job))
    return str(experiment.path)


def _extract(archive: bytes, folder: str) -> None:
    """Extract an archive that contains nothing but plain files and folders."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files.getmembers():
            place = Path(member.name)
            if (
                not (member.isfile() or member.isdir())
                or place.is_absolute()
                or ".." in place.parts
            ):
                raise tarfile.TarError(f"{member.name!r} is no plain file of the run")
        # Python below 3.11.4 has no filters, and ignores this.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(folder)

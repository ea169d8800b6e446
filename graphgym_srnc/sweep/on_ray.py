"""Runs on a Ray cluster: each is a task of Ray, and its files come back with the result, so that no
file system need be shared."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import traceback
from collections import deque
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from graphgym_srnc import __version__
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.sweep import packing, ray_task
from graphgym_srnc.sweep.jobs import Attempt, DataOf, Execute, Job, Limits, Outcome

try:
    import ray
except ImportError as error:
    hint = 'Install it with: pip install "graphgym-srnc[ray]"'
    raise InputError.plain("--executor", "the package ray is not installed", hint) from error

TASKS_PER_SLOT = 2
"""Tasks in Ray's hands for each that the cluster has room for: the next is there when one ends, and
the rest of a grid is not."""

POLL_SECONDS = 5.0
"""Seconds after which new nodes are noticed while no run ends."""

CANCEL_SECONDS = 1.0
"""Seconds for cancelled runs to end by themselves."""


class Resources(NamedTuple):
    """What a run takes of a node, or what a node has."""

    cpus: float
    gpus: float
    memory_mib: float

    @classmethod
    def of_node(cls, node: Mapping[str, Any]) -> Resources:
        """Those of a node as Ray describes it."""
        amounts = node["Resources"]
        return cls(amounts.get("CPU", 0), amounts.get("GPU", 0), amounts.get("memory", 0) / 2**20)

    def runs_on(self, node: Resources) -> int:
        """How many runs that take this much a node takes at once."""
        return min(int(has / wanted) for wanted, has in zip(self, node) if wanted)

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs, {self.gpus:g} GPUs, {self.memory_mib:.0f} MiB"


def run(
    jobs: Sequence[Job],
    execute: Execute,
    limits: Limits,
    *,
    address: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
    memory_mib: float = 0.0,
    data_of: DataOf | None = None,
    known: Mapping[str, str] | None = None,
) -> Iterator[Outcome]:
    """Run jobs on the nodes of a Ray cluster; see :data:`graphgym_srnc.sweep.jobs.Executor`.

    Ray places the tasks, notices dead nodes and ends what is cancelled. Attempts are counted here:
    those of Ray do not say when they begin, and never end for a run that is always out of memory.

    Args:
        jobs: what to run.
        execute: runs one of them; a function that a process on another node can import.
        limits: what each run may take.
        address: the cluster, as ``ray.init`` takes it; a caller that is connected stays so.
        cpus: cores that a run takes of its node.
        gpus: GPUs that it takes.
        memory_mib: memory that it takes; 0 = ``limits.memory_mib``.
        data_of: asked on each node before a run; a function like ``execute``. None = not asked.
        known: fingerprints by what data are called, of runs that are finished; what is not there
            the first node to answer decides.

    Raises:
        InputError: there is no such cluster, no node has room for a run, or a node has another
            version of this package or other data.
    """
    data = {name: (split, "finished runs") for name, split in (known or {}).items()}
    resources = Resources(cpus, gpus, memory_mib or limits.memory_mib)
    data_dir = os.environ.get(ray_task.DATA_DIR) or "./datasets"
    waiting, running = deque(map(Attempt, jobs)), {}
    with _connected(address):
        task = _task(resources)
        try:
            while waiting or running:
                most = max(1, TASKS_PER_SLOT * _slots(resources))
                while waiting and len(running) < most:
                    attempt = waiting.popleft()
                    job = attempt.job
                    if not job.overwrite and _is_finished(job):
                        message = f"seed {job.seed}: was finished by another process"
                        yield attempt.outcome("done", 0.0, message)
                    else:
                        running[task.remote(execute, job, limits.memory_mib, data_dir, data_of)] = (
                            attempt
                        )

                for stream in _ready(running, limits):
                    attempt = running[stream]
                    outcome, is_lost = _receive(stream, attempt, limits, data)
                    if outcome is None:
                        running[stream] = attempt._replace(begin=time.monotonic())
                        continue
                    del running[stream]
                    if is_lost and attempt.number <= limits.retries:
                        waiting.appendleft(Attempt(attempt.job, attempt.number + 1))
                    else:
                        yield outcome
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
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
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


def _task(resources: Resources) -> Any:
    """The task of Ray that a run is; it answers twice, when it begins and when it ends."""
    cpus, gpus, memory_mib = resources
    if cpus <= 0 or min(resources) < 0 or any(amount > 1 and amount % 1 for amount in (cpus, gpus)):
        allowed = "CPUs above 0 and GPUs from 0, whole numbers or below 1"
        raise InputError("resources of a run", str(resources), allowed)
    if not _slots(resources):
        offers = [f"{node['NodeManagerHostname']}: {Resources.of_node(node)}" for node in _nodes()]
        message = f"no node of the cluster has {resources} ({'; '.join(offers)})"
        raise InputError.plain("resources of a run", message, "Ask for less")
    options = {"num_cpus": cpus, "num_gpus": gpus, "memory": int(memory_mib * 2**20)}
    return ray.remote(**options, max_retries=0, num_returns="streaming")(ray_task.work)


def _nodes() -> list[Mapping[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _slots(resources: Resources) -> int:
    """How many runs the cluster takes at once."""
    return sum(resources.runs_on(Resources.of_node(node)) for node in _nodes())


def _is_finished(job: Job) -> bool:
    result = store.read_result(Path(job.out_dir, job.name, str(job.seed)))
    return result is not None and result["digest"] == job.digest


def _ready(running: Mapping[Any, Attempt], limits: Limits) -> list[Any]:
    """Wait until a task has answered, is out of time, or it is time to look for new nodes; return
    the tasks of the first two kinds."""
    if not running:
        return []
    left = [
        limits.seconds - attempt.seconds
        for attempt in running.values()
        if limits.seconds and attempt.begin is not None
    ]
    ray.wait(list(running), timeout=max(0.0, min([POLL_SECONDS, *left])))
    ready, silent = ray.wait(list(running), num_returns=len(running), timeout=0)
    return ready + [stream for stream in silent if running[stream].is_late(limits)]


def _receive(
    stream: Any, attempt: Attempt, limits: Limits, data: dict[str, tuple[str, str]]
) -> tuple[Outcome | None, bool]:
    """The outcome of an attempt, None if it has only begun, and whether its process was lost."""
    if attempt.is_late(limits) and not ray.wait([stream], timeout=0)[0]:
        ray.cancel(stream, force=True)
        reason = f"out of time: more than {limits.seconds:g} s"
        return attempt.outcome("failed", limits.seconds, reason), True
    try:
        answer = ray.get(next(stream))
    except ray.exceptions.RayTaskError as error:
        # What a run raises comes as text. This node cannot even begin one, and would spoil run
        # after run.
        lines = str(error).strip().splitlines()
        raise _bad_node(f"ray ({lines[0]} {lines[-1]})", "graphgym-srnc ") from error
    except ray.exceptions.RayError as error:
        reason = f"its process or its node died: {error}"
        if limits.memory_mib:
            reason += f"; one that outgrows {limits.memory_mib:g} MiB is ended"
        return attempt.outcome("failed", 0.0, reason), True

    if attempt.begin is None:
        node, version, found = answer
        if version != __version__:
            raise _bad_node(f"ray with graphgym-srnc {version} on node {node}")
        if found is not None:
            ray_task.check_same(data, node, *found)
        return None, False
    state, seconds, message, files = answer
    if state == "done":
        try:
            packing.unpack(attempt.job, files)
        except store.Busy as error:
            state, message = "busy", str(error)
        except (InputError, OSError):
            state, message = "failed", traceback.format_exc()
    return attempt.outcome(state, seconds, message), False


def _bad_node(found: str, package: str = "") -> InputError:
    hint = f"Install {package}{__version__}, as here, on every node"
    return InputError.plain("--executor", f"a node of the cluster has {found}", hint)


def _cancel(streams: list[Any]) -> None:
    """Cancel tasks: at first so that they can remove their temporary folders, then by force."""
    for stream in streams:
        ray.cancel(stream)
    if streams:
        # Ray can only wait for a task that is heard to its end, which may never come.
        time.sleep(CANCEL_SECONDS)
    for stream in streams:
        ray.cancel(stream, force=True)

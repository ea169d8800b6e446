"""Data-parallel training: the processes that ``torchrun`` starts share batches and inference.

All processes hold the same graph and, after each step, the same weights. They draw the nodes of a
step, pseudo-labels and the selected episode alike. Each draws neighbours and dropout for its part.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Callable, Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from graphgym_srnc.errors import InputError

_together = False
_common: torch.Generator | None = None  # of draws that are equal in all processes


class ProcessLost(ConnectionError):
    """Another process has ended or does not answer."""


def count() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0; the first one stores results and prints."""
    return dist.get_rank() if count() > 1 else 0


def world() -> int:
    """Number of processes that share the current work: 1 outside ``together``."""
    return count() if _together else 1


@contextlib.contextmanager
def processes() -> Iterator[None]:
    """Join the processes that ``torchrun`` started; without ``torchrun`` do nothing."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "TORCHELASTIC_RUN_ID" not in os.environ:
        yield
        return
    with _reported():
        store, number, size = next(dist.rendezvous("env://"))
        # After a restart the store still has the addresses of the previous processes.
        store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group("gloo", store=store, rank=number, world_size=size)
    try:
        yield
        with _reported():
            dist.barrier()  # wait until the first process has stored the results
    finally:
        dist.destroy_process_group()
    if number > 0:
        # Threads of gloo may abort a process while its interpreter ends, which torchrun reports.
        os._exit(0)


@contextlib.contextmanager
def together(on: bool = True) -> Iterator[None]:
    """Part of the program that all processes run alike, or each for itself if ``on`` is False."""
    global _together
    before = _together
    _together = on
    try:
        yield
    finally:
        _together = before


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Part that the first process runs for itself; the value is whether this process is it."""
    with together(False):
        yield rank() == 0


@contextlib.contextmanager
def own_draws() -> Iterator[bool]:
    """Make draws differ between processes except in ``share``; afterwards they are equal.

    The value is whether there is one process alone.
    """
    global _common
    if world() == 1:
        yield True
        return
    _common = torch.Generator()
    _common.set_state(torch.get_rng_state())
    torch.manual_seed(int(torch.randint(2**62, ())) + rank())
    try:
        yield False
    finally:
        torch.set_rng_state(_common.get_state())
        _common = None


def share(draw: Callable[[torch.Generator | None], Tensor]) -> Tensor:
    """This process's part of a draw ``[..., n]`` that is equal in all: each ``world``-th item.

    ``draw`` takes a generator; None = torch's own.
    """
    drawn = draw(_common)
    # If there are too few, all.
    return drawn[..., rank() :: world()] if drawn.size(-1) >= world() > 1 else drawn


def average(parameters: Iterable[Tensor]) -> None:
    """Replace the gradients of the parameters by their mean over processes."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if world() > 1 and gradients:
        means = _mean(nn.utils.parameters_to_vector(gradients))
        nn.utils.vector_to_parameters(means, gradients)


def mean(values: dict[str, float]) -> dict[str, float]:
    """Mean over processes of each figure."""
    if world() == 1:
        return values
    return dict(zip(values, _mean(torch.tensor([*values.values()], dtype=torch.float64)).tolist()))


def gather(own: Tensor) -> Tensor:
    """Rows ``[n, K]`` of all processes, for a loss that is not a mean over rows.

    Gradients reach the rows of this process, times the number of processes, for ``average``.
    """
    if world() == 1:
        return own
    each = _each(own.detach())
    each[rank()] = own + (world() - 1) * (own - own.detach())
    return torch.cat(each)


class Rows:
    """The rows that this process computes of a matrix that all processes need.

    Args:
        costs: cumulative cost of the rows, ``[V]``. All processes have about the same cost.

    Attributes:
        begin, end: the first row, and the one after the last.
    """

    def __init__(self, costs: Tensor) -> None:
        wanted = costs[-1] * torch.arange(1, world(), dtype=torch.double) / world()
        inner = torch.searchsorted(costs.to(wanted), wanted)
        self.cuts = [0, *inner.tolist(), len(costs)]
        place = rank() if world() > 1 else 0
        self.begin, self.end = self.cuts[place : place + 2]

    def exchange(self, rows: Tensor) -> None:
        """Fill in the rows ``[V, K]`` that other processes computed, in place."""
        with _reported():
            for source, (begin, end) in enumerate(zip(self.cuts, self.cuts[1:])):
                if world() > 1 and begin < end:
                    dist.broadcast(rows[begin:end], source)


def from_first(make: Callable[[], bytes]) -> bytes:
    """Result of ``make()`` in the first process, in all processes."""
    if count() == 1:
        return make()
    content = bytearray(make() if rank() == 0 else b"") + b"."  # torch takes no empty buffer
    return _each(torch.frombuffer(content, dtype=torch.uint8))[0].numpy().tobytes()[:-1]


def check_alike(what: str, text: str) -> None:
    """Refuse a text that is not the same in all processes, in every one of them."""
    own = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    if count() > 1 and not all(torch.equal(own, other) for other in _each(own)):
        raise InputError.plain(
            what,
            f"it is not the same in all processes (here {text})",
            "Give each process the same data, config and code",
        )


def _mean(values: Tensor) -> Tensor:
    with _reported():
        dist.all_reduce(values)
    return values / world()


def _each(own: Tensor) -> list[Tensor]:
    """The rows ``[n, ...]`` of each process, whose numbers may differ."""
    sizes = torch.zeros(count(), dtype=torch.long)
    sizes[rank()] = len(own)
    with _reported():
        dist.all_reduce(sizes)
        padded = own.new_zeros(int(sizes.max()), *own.shape[1:])
        padded[: len(own)] = own
        each = [torch.empty_like(padded) for _ in sizes]
        if len(padded):
            dist.all_gather(each, padded)
    return [rows[:size] for rows, size in zip(each, sizes.tolist())]


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        # The message of torch without places in its source.
        reason = re.sub(r"\[[^]]*\.cc:\d+\] ", "", str(error)).partition(". ")[0]
        raise ProcessLost(
            f"process {rank()} of {count()} lost the others: one of them ended or does not answer "
            f"({reason}). Finished runs and checkpoints are kept"
        ) from error

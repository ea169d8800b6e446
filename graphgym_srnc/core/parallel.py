"""Data-parallel training: the processes that ``torchrun`` starts share batches and inference.

All hold the same graph and, after each step, the same weights. What steers a run (which nodes a
step draws, pseudo-labels, selection) is drawn or decided alike in all of them; neighbours and
dropout are drawn by each process for its own part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from graphgym_srnc.core.errors import InputError

_together = False
"""Whether all processes are at the same place of the same training."""

_common_state: Tensor | None = None
"""Within :func:`own_draws`, the state of torch's generator that is the same in all processes."""


class ProcessLost(ConnectionError):
    """Another process has ended or no longer answers."""


def count() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def first() -> bool:
    """Whether this is the process that stores, draws and tells."""
    return count() == 1 or dist.get_rank() == 0


def world() -> int:
    """Number of processes that share what is done now: 1 outside :func:`together`."""
    return count() if _together else 1


@contextlib.contextmanager
def processes() -> Iterator[None]:
    """Be one of the processes that ``torchrun`` started; without it, nothing.

    Raises:
        ProcessLost: the processes did not find each other.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "TORCHELASTIC_RUN_ID" not in os.environ:
        yield
        return
    try:
        store, rank, size = next(dist.rendezvous("env://"))
        # Processes that torchrun starts again meet in the store that has the old addresses.
        store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    except (RuntimeError, ValueError) as error:
        text = "the processes of torchrun did not find each other"
        raise ProcessLost(f"{text} ({_reason(error)})") from error
    try:
        yield
        _call(dist.barrier)  # nobody leaves before the first one has stored what all made
    finally:
        dist.destroy_process_group()
    if rank > 0:
        # Gloo's threads may abort a process while its interpreter ends: for torchrun a failure.
        os._exit(0)


@contextlib.contextmanager
def together(on: bool = True) -> Iterator[None]:
    """A part of the program that all processes run alike, or with ``on`` False one for itself."""
    global _together
    before, _together = _together, on
    try:
        yield
    finally:
        _together = before


@contextlib.contextmanager
def own_draws() -> Iterator[None]:
    """Draws in here differ between processes, but for :func:`share`; afterwards they do not."""
    global _common_state
    if world() == 1:
        yield
        return
    # The draw for the seed is taken back: where nothing else is drawn, steps are one process's.
    _common_state = torch.get_rng_state()
    seed = int(torch.randint(2**62, ()))
    torch.manual_seed(seed + dist.get_rank())
    try:
        yield
    finally:
        torch.set_rng_state(_common_state)
        _common_state = None


def share(draw: Callable[[], Tensor]) -> Tensor:
    """This process's part of a draw ``[..., n]`` that is the same in all: each ``world``-th item.

    Where there are fewer items than processes, each process has all.
    """
    global _common_state
    if world() == 1:
        return draw()
    if _common_state is None:
        drawn = draw()
    else:
        own_state = torch.get_rng_state()
        torch.set_rng_state(_common_state)
        drawn = draw()
        _common_state = torch.get_rng_state()
        torch.set_rng_state(own_state)
    return drawn[..., dist.get_rank() :: world()] if drawn.size(-1) >= world() else drawn


def average(parameters: Iterable[Tensor]) -> None:
    """Put the mean over processes into the gradients of these parameters."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if world() == 1 or not gradients:
        return
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    _call(dist.all_reduce, flat)
    means = (flat / world()).split([gradient.numel() for gradient in gradients])
    for gradient, mean_gradient in zip(gradients, means):
        gradient.copy_(mean_gradient.view_as(gradient))


def mean(values: dict[str, float]) -> dict[str, float]:
    """The mean over processes of figures that all of them have."""
    if world() == 1:
        return values
    total = torch.tensor(list(values.values()), dtype=torch.float64)
    _call(dist.all_reduce, total)
    return dict(zip(values, (total / world()).tolist()))


def gather(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Each tensor ``[n, K]`` with the rows of all processes, for a loss that is no mean over rows.

    Gradients reach the rows of this process, times the number of processes, so that :func:`average`
    gives the gradient of the loss of all rows.
    """
    return tuple(map(_gather, tensors)) if world() > 1 else tensors


def _gather(own: Tensor) -> Tensor:
    sizes = torch.zeros(world(), dtype=torch.long)
    sizes[dist.get_rank()] = len(own)
    _call(dist.all_reduce, sizes)
    if not int(sizes.max()):
        return own
    padded = own.new_zeros(int(sizes.max()), *own.shape[1:])
    padded[: len(own)] = own.detach()
    each = [torch.empty_like(padded) for _ in sizes]
    _call(dist.all_gather, each, padded)
    each = [rows[:size] for rows, size in zip(each, sizes.tolist())]
    each[dist.get_rank()] = own + (world() - 1) * (own - own.detach())
    return torch.cat(each)


def exchange(rows: Tensor, cuts: Sequence[int]) -> None:
    """Fill in what the other processes made of ``rows`` ``[V, K]``, in place.

    Process r made the rows from ``cuts[r]`` to ``cuts[r + 1]``.
    """
    for rank in range(world() if world() > 1 else 0):
        if cuts[rank] < cuts[rank + 1]:
            _call(dist.broadcast, rows[cuts[rank] : cuts[rank + 1]], rank)


def own_range(cuts: Sequence[int]) -> tuple[int, int]:
    """The rows that this process makes, see :func:`exchange`."""
    rank = dist.get_rank() if world() > 1 else 0
    return cuts[rank], cuts[rank + 1]


def from_first(make: Callable[[], bytes]) -> bytes:
    """What ``make()`` gives in the first process, in all of them."""
    if count() == 1:
        return make()
    content = bytearray(make() if first() else b"")
    size = torch.tensor(len(content))
    _call(dist.broadcast, size, 0)
    if not int(size):
        return b""
    payload = torch.frombuffer(content or bytearray(int(size)), dtype=torch.uint8)
    _call(dist.broadcast, payload, 0)
    return payload.numpy().tobytes()


def check_alike(what: str, text: str) -> None:
    """Refuse to go on if a text is not the same in all processes.

    Raises:
        InputError: it is not; in every process.
    """
    if count() == 1:
        return
    own = torch.frombuffer(bytearray(hashlib.sha256(text.encode()).digest()), dtype=torch.uint8)
    each = [torch.empty_like(own) for _ in range(count())]
    _call(dist.all_gather, each, own)
    if not all(torch.equal(other, own) for other in each):
        raise InputError.plain(
            what,
            f"it is not the same in all processes (here {text})",
            "Give each process the same data, config and code",
        )


def _call(operation: Callable[..., Any], *args: Any) -> None:
    try:
        operation(*args)
    except RuntimeError as error:
        raise ProcessLost(
            f"process {dist.get_rank()} of {count()} lost the others: one of them ended or no "
            f"longer answers ({_reason(error)}); finished runs and checkpoints are kept, the same "
            "command with --resume goes on"
        ) from error


def _reason(error: Exception) -> str:
    """What torch says, without the places in its source."""
    return re.sub(r"\[[^]]*\.cc:\d+\] ", "", str(error)).partition(". ")[0]

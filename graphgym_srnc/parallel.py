"""Data-parallel training: the processes that ``torchrun`` starts share the nodes of each batch and the rows of each inference.

All hold the same graph and, after each step, the same weights. What steers a run (which nodes a step draws, pseudo-labels, selection) is
drawn or decided alike in all of them; neighbours and dropout are drawn by each process for its own part.
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

from graphgym_srnc.errors import InputError

_together = False
"""Whether all processes are at the same place of the same training."""

_alike: Tensor | None = None
"""Within a process's own draws, the state of torch's generator that is the same in all processes."""


class Lost(ConnectionError):
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
        Lost: the processes did not find each other.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "TORCHELASTIC_RUN_ID" not in os.environ:
        yield
        return
    try:
        store, rank, world_size = next(dist.rendezvous("env://"))
        # Processes that torchrun starts again meet in the same store, where the addresses of those that ended still are.
        store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    except (RuntimeError, ValueError) as error:
        raise Lost(f"the processes of torchrun did not find each other ({_reason(error)})") from error
    helps = rank > 0
    try:
        yield
        _call(dist.barrier)  # nobody leaves before the first one has stored what all made
    finally:
        dist.destroy_process_group()
    if helps:
        # Gloo's threads have aborted a process while its interpreter ended, which torchrun takes for a failure of all.
        os._exit(0)


@contextlib.contextmanager
def together(on: bool = True) -> Iterator[None]:
    """A part of the program that all processes run alike; with ``on`` False, a part of it that one of them runs for itself."""
    global _together
    before, _together = _together, on
    try:
        yield
    finally:
        _together = before


@contextlib.contextmanager
def own_draws() -> Iterator[None]:
    """Draws in here differ between processes, but for those of :func:`share`; after it all generators are alike again."""
    global _alike
    if world() == 1:
        yield
        return
    # The draw for the seed is taken back, so that where nothing else is drawn steps are those of one process.
    _alike = torch.get_rng_state()
    seed = int(torch.randint(2 ** 62, ()))
    torch.manual_seed(seed + dist.get_rank())
    try:
        yield
    finally:
        torch.set_rng_state(_alike)
        _alike = None


def share(draw: Callable[[], Tensor]) -> Tensor:
    """This process's part of what ``draw()`` gives in all of them alike, each ``world``-th along the last dimension.

    Where there are fewer than processes, each has all.
    """
    if world() == 1:
        return draw()
    global _alike
    own = torch.get_rng_state()
    if _alike is not None:
        torch.set_rng_state(_alike)
    drawn = draw()
    if _alike is not None:
        _alike = torch.get_rng_state()
        torch.set_rng_state(own)
    return drawn[..., dist.get_rank()::world()] if drawn.size(-1) >= world() else drawn


def average(parameters: Iterable[Tensor]) -> None:
    """Put the mean over processes into the gradients of these parameters."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if world() == 1 or not gradients:
        return
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    _call(dist.all_reduce, flat)
    for gradient, mean in zip(gradients, (flat / world()).split([gradient.numel() for gradient in gradients])):
        gradient.copy_(mean.view_as(gradient))


def mean(values: dict[str, float]) -> dict[str, float]:
    """The mean over processes of figures that all of them have."""
    if world() == 1:
        return values
    total = torch.tensor(list(values.values()), dtype=torch.float64)
    _call(dist.all_reduce, total)
    return dict(zip(values, (total / world()).tolist()))


def gather(*parts: Tensor) -> tuple[Tensor, ...]:
    """Each tensor ``[n, K]`` with the rows of all processes, for a loss that is no mean over rows.

    Gradients reach the rows of this process, times the number of processes, so that :func:`average` gives the gradient of the loss of
    all rows.
    """
    return tuple(map(_gather, parts)) if world() > 1 else parts


def _gather(part: Tensor) -> Tensor:
    sizes = torch.zeros(world(), dtype=torch.long)
    sizes[dist.get_rank()] = len(part)
    _call(dist.all_reduce, sizes)
    if not int(sizes.max()):
        return part
    padded = part.new_zeros(int(sizes.max()), *part.shape[1:])
    padded[:len(part)] = part.detach()
    rows = [torch.empty_like(padded) for _ in sizes]
    _call(dist.all_gather, rows, padded)
    rows = [row[:size] for row, size in zip(rows, sizes.tolist())]
    rows[dist.get_rank()] = part + (world() - 1) * (part - part.detach())
    return torch.cat(rows)


def exchange(rows: Tensor, cuts: Sequence[int]) -> None:
    """Fill in what the others made of ``rows`` ``[V, K]``, in place: process r made those from ``cuts[r]`` to ``cuts[r + 1]``."""
    for rank in range(world() if world() > 1 else 0):
        if cuts[rank] < cuts[rank + 1]:
            _call(dist.broadcast, rows[cuts[rank]:cuts[rank + 1]], rank)


def own_range(cuts: Sequence[int]) -> tuple[int, int]:
    """The rows that this process makes, see :func:`exchange`."""
    rank = dist.get_rank() if world() > 1 else 0
    return cuts[rank], cuts[rank + 1]


def from_first(make: Callable[[], bytes]) -> bytes:
    """What ``make()`` gives in the first process, in all of them."""
    if count() == 1:
        return make()
    content = make() if first() else b""
    size = torch.tensor(len(content))
    _call(dist.broadcast, size, 0)
    payload = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(int(size), dtype=torch.uint8)
    if int(size):
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
        raise InputError(what, text, "the same in all processes: give each the same data, config and code")


def _call(operation: Callable[..., Any], *args: Any) -> None:
    try:
        operation(*args)
    except RuntimeError as error:
        raise Lost(f"process {dist.get_rank()} of {count()} lost the others: one of them ended or no longer answers ({_reason(error)}); "
                   "finished runs and checkpoints are kept, the same command with --resume goes on") from error


def _reason(error: Exception) -> str:
    """What torch says, without the places in its source."""
    return re.sub(r"\[[^]]*\.cc:\d+\] ", "", str(error)).partition(". ")[0]

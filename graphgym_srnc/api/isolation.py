"""Computation that neither depends on the caller's settings of torch nor changes them."""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator

import torch

_training = threading.RLock()


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Compute with torch's own defaults, whatever the caller has set, and restore its settings.

    These are the default dtype and device, inference mode, gradients and autocast.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
            stack.enter_context(torch.autocast(device, enabled=False))
        if torch.empty(0).device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextlib.contextmanager
def alone(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generator under a lock, and restore its state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with _training, torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield

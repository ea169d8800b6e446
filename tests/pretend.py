"""A GPU that is none: a device of torch whose tensors hold CPU tensors, to test what runs where.

Operators run on what the tensors hold, so numbers are those of the CPU, bit for bit. As on a GPU,
tensors of both devices do not mix, and ``numpy()`` raises. It notes each operator for which a
program would have to wait for a GPU.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cache
from typing import Any, Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from graphgym_srnc.backbones import sparse

if not hasattr(backend_registration, "_DummyBackendModule"):
    reason = f"torch {torch.__version__} knows no device that is written in Python"
    pytest.skip(reason, allow_module_level=True)

WAITS = {
    *"_local_scalar_dense item is_nonzero equal nonzero masked_select bincount multinomial".split(),
    *"_unique _unique2 unique_dim unique_consecutive unique_dim_consecutive histc".split(),
}
"""Operators whose result, or its size, the program has to know before it goes on."""

INDEXING = {"index", "index_put", "_index_put_impl"}
"""Operators on the device that take indices of the CPU too, and wait for these and for masks."""


class Backend(backend_registration._DummyBackendModule):
    """What torch asks of the module of a device."""

    def is_available(self) -> bool:
        return False

    def get_rng_state(self, device: torch.device) -> Tensor:
        return torch.tensor([1, 2, 3], dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: torch.device) -> None:
        pass


class Hook(backend_registration._DummyPrivateUse1Hook):
    """Tells the rest of torch, which would pin memory for the device, that there is none."""

    def is_available(self) -> bool:
        return False


@cache
def device() -> torch.device:
    """The device; torch knows it from the first call on."""
    backend_registration._setup_privateuseone_for_python_backend(
        "pretend", backend_module=Backend(), hook=Hook()
    )
    return torch.device("pretend", 0)


class There(Tensor):
    """A tensor on the device, which holds ``here``."""

    @staticmethod
    def __new__(cls, here: Tensor) -> There:
        layout = {"strides": here.stride(), "storage_offset": here.storage_offset()}
        layout |= {"dtype": here.dtype, "device": device()}
        made = Tensor._make_wrapper_subclass(cls, here.size(), **layout)
        made.here = here
        return made

    def tolist(self) -> list:
        return self.cpu().tolist()

    def new_tensor(self, data: Any) -> Tensor:
        return torch.tensor(data, dtype=self.dtype).to(self.device)

    def __reduce_ex__(self, protocol: int) -> Any:
        return self.here.__reduce_ex__(protocol)  # a file is read on any machine

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} where the device is not pretended")


def mapped(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Arguments or results of an operator, whose tensors may be in lists, with changed tensors."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [mapped(change, one) for one in value]
    return value


def held(tensor: Tensor) -> Tensor:
    return tensor.here if isinstance(tensor, There) else tensor


class Pretend(TorchDispatchMode):
    """Runs operators; ``waits`` lists those that waited while ``noting``, each with its caller."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.noting = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        kwargs = dict(kwargs or {})
        tensors: list[Tensor] = []
        mapped(tensors.append, [*args, *kwargs.values()])
        there = [tensor for tensor in tensors if isinstance(tensor, There)]
        mixed = bool(there) and any(
            tensor.dim() for tensor in tensors if not isinstance(tensor, There)
        )
        wanted = kwargs.get("device") and torch.device(kwargs["device"]).type
        goes = name == "_to_copy" and wanted == "pretend" and not there and bool(tensors[0].dim())
        comes_back = bool(there) and (
            name == "_to_copy"
            and wanted == "cpu"
            or name == "copy"
            and not isinstance(args[0], There)
        )
        indexed = name in INDEXING and all(
            isinstance(arg, There) or not arg.dim() for arg in args[:3:2]
        )
        if mixed and name != "copy" and not indexed:
            raise RuntimeError(f"{func}: tensors of the CPU and of the device, {self._caller()}")
        masked = name in INDEXING and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1]
        )
        sized = (
            func is torch.ops.aten.repeat_interleave.Tensor and kwargs.get("output_size") is None
        )
        if self.noting and (
            goes or there and (name in WAITS or mixed or masked or sized or comes_back)
        ):
            self.waits.append(f"{name}, {self._caller()}")
        if wanted:
            kwargs["device"] = torch.device("cpu")
        out = func(
            *mapped(held, args), **{key: mapped(held, value) for key, value in kwargs.items()}
        )
        if comes_back or not (there or wanted == "pretend"):
            return out
        # An operator in place gives back the very tensor that it was given.
        given = {id(tensor.here): tensor for tensor in there}
        return mapped(
            lambda tensor: given[id(tensor)] if id(tensor) in given else There(tensor), out
        )

    @staticmethod
    def _caller() -> str:
        frame = sys._getframe(2)
        while frame is not None and "graphgym_srnc/" not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is None:
            return "from elsewhere"
        code = frame.f_code
        return f"{code.co_filename.rpartition('graphgym_srnc/')[2]}, {code.co_name}"


@contextmanager
def pretended() -> Iterator[Pretend]:
    """Let there be the device.

    Products of rows at the entries of a matrix are the CPU's, since torch's own CSR matrices need a
    real device.
    """
    products = sparse._products_of_rows

    def on_the_cpu(matrix: sparse.Sparse, left: Tensor, right: Tensor) -> Tensor:
        if not isinstance(left, There):
            return products(matrix, left, right)
        return There(products(sparse.Sparse(matrix.matrix), left.here, right.here))

    device()
    # Torch may have started its threads for backward passes before it knew the device.
    no_threads = torch.autograd.set_multithreading_enabled(False)
    with pytest.MonkeyPatch.context() as patch, no_threads, Pretend() as mode:
        patch.setattr(sparse, "_products_of_rows", on_the_cpu)
        yield mode

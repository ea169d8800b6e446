"""What an estimator is told: checks by type and range, and what becomes of it."""
from __future__ import annotations

import math
import numbers
from functools import partial
from typing import Any, Callable, Mapping

import numpy as np

from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, FEATURES, EncoderSpec
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.training import adam
from graphgym_srnc.options import options
from graphgym_srnc.train.selection import SELECTIONS

KINDS = {kind: kind for kind in BACKBONES} | {encoder.__name__.lower(): kind for kind, encoder in BACKBONES.items()}
"""Kind of encoder by its name here, GraphGym's or the short one."""

CHOICES = {"backbone": tuple(KINDS), "activation": tuple(ACTIVATIONS), "features": FEATURES, "selection": ("auto", *SELECTIONS),
           "open_set": (None, True, False)}

RANGES: dict[str, tuple[float, float, type]] = {
    "hidden": (1, math.inf, int), "layers": (1, math.inf, int), "heads": (1, math.inf, int), "dropout": (0, 0.999, float),
    "lr": (0, math.inf, float), "weight_decay": (0, math.inf, float), "min_agreement": (0, 1, float),
    "max_episodes": (-1, math.inf, int), "patience": (0, math.inf, int), "random_state": (0, 2 ** 32 - 1, int)}
"""Smallest and largest value, and type, of a number."""

_TYPES: dict[type, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    int: (lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool), "a whole number"),
    float: (lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value), "a number"),
    str: (lambda value: isinstance(value, str), "text"),
    list: (lambda value: isinstance(value, (list, tuple, np.ndarray)) and all(map(_TYPES[float][0], value)), "a list of numbers"),
}


def checked(method: type[Method], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator in plain Python types, which a file can hold: all but ``callbacks``.

    Raises:
        InputError: one is of a wrong type or out of its range.
    """
    plain = {option.key: _typed(option.key, given[option.key], option.type) for option in options(method)}
    for name, allowed in CHOICES.items():
        if not isinstance(given[name], (str, bool, type(None))) or given[name] not in allowed:
            raise InputError(name, given[name], ", ".join(map(str, allowed)))
        plain[name] = given[name]
    for name, (low, high, kind) in RANGES.items():
        plain[name] = _typed(name, given[name], kind)
        if not low <= plain[name] <= high:
            raise InputError(name, plain[name], f"{low} or more" if high == math.inf else f"{low} to {high}")
    if not isinstance(given["callbacks"], (list, tuple)) or not all(map(callable, given["callbacks"])):
        raise InputError("callbacks", given["callbacks"], "a list of functions of an episode, the method and the task")
    if KINDS[plain["backbone"]] == "gatconv" and plain["layers"] > 1 and plain["hidden"] % plain["heads"]:
        raise InputError("hidden", plain["hidden"], f"a multiple of heads = {plain['heads']}")
    return plain


def new_method(method: type[Method], plain: Mapping[str, Any]) -> Method:
    """A method of checked parameters.

    Raises:
        InputError: an option of the method makes no sense.
    """
    encoder = EncoderSpec(kind=KINDS[plain["backbone"]], act=plain["activation"],
                          **{name: plain[name] for name in ("layers", "hidden", "dropout", "heads", "features")})
    return method(encoder=encoder, make_optimizer=partial(adam, lr=plain["lr"], weight_decay=plain["weight_decay"]),
                  **{option.key: plain[option.key] for option in options(method)})


def _typed(name: str, value: Any, kind: type) -> Any:
    right, words = _TYPES[list if kind is tuple else kind]
    if not right(value):
        raise InputError(name, value, words)
    return kind(map(float, value)) if kind in (list, tuple) else kind(value)

"""Parameters of an estimator: types, ranges, and the method they configure."""

from __future__ import annotations

import math
import numbers
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from graphgym_srnc.backbones import BACKBONES, EncoderSpec
from graphgym_srnc.core import environment
from graphgym_srnc.core.options import Range, check, options
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.train.model import TrainedModel

KINDS = {kind: kind for kind in BACKBONES} | {
    encoder.__name__.lower(): kind for kind, encoder in BACKBONES.items()
}
"""Encoder kind by its GraphGym name or its short name."""

ENCODER = {"backbone": "kind", "activation": "act"} | {
    name: name for name in ("layers", "hidden", "dropout", "heads", "features")
}
"""Field of the encoder specification by the name of the estimator parameter."""

THREADS = Range(1, environment.MAX_THREADS, word=environment.AUTO)
"""Allowed values of ``num_threads``."""

TYPES: dict[type, tuple[Any, str]] = {
    bool: ((bool, np.bool_), "True or False"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "text"),
    list: ((list, tuple, np.ndarray), "a list of numbers"),
}
"""Accepted types for each parameter type, and their description in error messages."""


def checked(estimator: BaseEstimator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Validate the parameters of an estimator and convert them to plain Python types.

    Returns:
        The options of the method, and the shared parameters except ``callbacks`` and ``verbose``.

    Raises:
        InputError: a parameter has the wrong type or is out of range.
    """
    given = estimator.get_params(deep=False)
    callbacks, verbose = given.pop("callbacks"), given.pop("verbose")
    open_set, threads = given["open_set"], num_threads(given.pop("num_threads"))
    plain = {
        option.key: _typed(option.key, given[option.key], option.type)
        for option in options(type(estimator))
        if option.key in given
    }
    check(type(estimator), plain)
    if not isinstance(open_set, (bool, type(None))):
        raise InputError("open_set", open_set, "None, True, False")
    if not isinstance(callbacks, (list, tuple)) or not all(map(callable, callbacks)):
        allowed = "a list of functions of an episode, the method and the task"
        raise InputError("callbacks", callbacks, allowed)
    if not isinstance(verbose, (bool, np.bool_, numbers.Integral)) or verbose < 0:
        raise InputError("verbose", verbose, "True, False or a whole number from 0 on")
    shared_by_heads = KINDS[plain["backbone"]] in ("gatconv", "gatdrop") and plain["layers"] > 1
    if shared_by_heads and plain["hidden"] % plain["heads"]:
        raise InputError("hidden", plain["hidden"], f"a multiple of heads = {plain['heads']}")
    own = {option.key: plain.pop(option.key) for option in options(estimator._method)}
    return own, plain | {"open_set": open_set, "num_threads": threads}


def num_threads(given: Any) -> int | str:
    """Validate the parameter ``num_threads`` and convert it to a plain Python type.

    Raises:
        InputError: the value is neither a valid number of threads nor ``auto``.
    """
    is_bool = isinstance(given, (bool, np.bool_))
    if is_bool or not isinstance(given, (numbers.Integral, str)) or not THREADS.allows(given):
        raise InputError("num_threads", given, str(THREADS))
    return given if isinstance(given, str) else int(given)


def new_method(method: type[Method], own: dict[str, Any], shared: dict[str, Any]) -> Method:
    """Untrained method with the given (validated) parameters.

    Args:
        method: class of the method.
        own: options of the method, by name.
        shared: parameters that all estimators have, by name.

    Raises:
        InputError: the method rejects one of its options.
    """
    spec = {field: shared[name] for name, field in ENCODER.items()}
    encoder = EncoderSpec(**spec | {"kind": KINDS[shared["backbone"]]})
    optimizer = partial(adam, lr=shared["lr"], weight_decay=shared["weight_decay"])
    return method(encoder=encoder, make_optimizer=optimizer, **own)


def of_model(model: TrainedModel) -> dict[str, Any]:
    """Estimator parameters that are stored with a trained model."""
    encoder = {name: getattr(model.method.encoder, field) for name, field in ENCODER.items()}
    params = encoder | model.options | model.facts.get("params", {})
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in params.items()
    }


def _typed(name: str, value: Any, kind: type) -> Any:
    kind = list if kind is tuple else kind
    allowed, words = TYPES[kind]
    if (
        not isinstance(value, allowed)
        or isinstance(value, bool)
        and kind is not bool
        or kind is float
        and not math.isfinite(value)
    ):
        raise InputError(name, value, words)
    return [_typed(name, item, float) for item in value] if kind is list else kind(value)

"""The parameters of an estimator: their types and ranges, and the method that they make."""
from __future__ import annotations

import math
import numbers
from functools import partial
from typing import Any, Callable, Mapping

import numpy as np
from sklearn.base import BaseEstimator

from graphgym_srnc.backbones import BACKBONES, EncoderSpec
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.training import adam
from graphgym_srnc.options import check, options
from graphgym_srnc.train.model import TrainedModel

KINDS = {kind: kind for kind in BACKBONES} | {
    encoder.__name__.lower(): kind for kind, encoder in BACKBONES.items()}
"""Kind of encoder by GraphGym's name or the short one."""

ENCODER = {"backbone": "kind", "activation": "act"} | {
    name: name for name in ("layers", "hidden", "dropout", "heads", "features")}
"""Field of an encoder's spec by the parameter that sets it."""

_TYPES: dict[type, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    int: (lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool),
          "a whole number"),
    float: (lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool)
            and math.isfinite(value), "a number"),
    str: (lambda value: isinstance(value, str), "text"),
    list: (lambda value: isinstance(value, (list, tuple, np.ndarray))
           and all(map(_TYPES[float][0], value)), "a list of numbers"),
}


def checked(estimator: BaseEstimator) -> dict[str, Any]:
    """The parameters of an estimator in plain Python types, but for ``callbacks``.

    Raises:
        InputError: one is of a wrong type or out of its range.
    """
    given = estimator.get_params(deep=False)
    callbacks, open_set = given.pop("callbacks"), given["open_set"]
    plain = {option.key: _typed(option.key, given[option.key], option.type)
             for option in options(type(estimator)) if option.key in given}
    check(type(estimator), plain)

    if not isinstance(open_set, (bool, type(None))):
        raise InputError("open_set", open_set, "None, True, False")
    if not isinstance(callbacks, (list, tuple)) or not all(map(callable, callbacks)):
        allowed = "a list of functions of an episode, the method and the task"
        raise InputError("callbacks", callbacks, allowed)
    shared = KINDS[plain["backbone"]] == "gatconv" and plain["layers"] > 1
    if shared and plain["hidden"] % plain["heads"]:
        raise InputError("hidden", plain["hidden"], f"a multiple of heads = {plain['heads']}")
    return plain | {"open_set": open_set}


def new_method(method: type[Method], plain: Mapping[str, Any]) -> Method:
    """An untrained method of checked parameters.

    Raises:
        InputError: the method refuses one of its options.
    """
    spec = {field: plain[name] for name, field in ENCODER.items()}
    optimizer = partial(adam, lr=plain["lr"], weight_decay=plain["weight_decay"])
    return method(encoder=EncoderSpec(**spec | {"kind": KINDS[plain["backbone"]]}),
                  make_optimizer=optimizer, **{o.key: plain[o.key] for o in options(method)})


def of_model(model: TrainedModel) -> dict[str, Any]:
    """The parameters of an estimator with this model, as far as the model's file tells them."""
    encoder = {name: getattr(model.method.encoder, field) for name, field in ENCODER.items()}
    params = encoder | model.options | model.facts.get("params", {})
    return {name: tuple(value) if isinstance(value, list) else value
            for name, value in params.items()}


def _typed(name: str, value: Any, kind: type) -> Any:
    kind = list if kind is tuple else kind
    is_right, words = _TYPES[kind]
    if not is_right(value):
        raise InputError(name, value, words)
    return list(map(float, value)) if kind is list else kind(value)

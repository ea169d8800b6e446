"""Parameters of an estimator: the shared ones, types, ranges, and the method they configure."""

from __future__ import annotations

import numbers
from functools import partial
from typing import Annotated, Any, Callable, Mapping, Sequence

import numpy as np

from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, FEATURES, EncoderSpec
from graphgym_srnc.core import environment
from graphgym_srnc.core.options import (
    Count,
    Few,
    Natural,
    OneOf,
    Range,
    Weight,
    check,
    finite,
    options,
)
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.train import trainer
from graphgym_srnc.train.model import TrainedModel
from graphgym_srnc.train.selection import SELECTIONS

Callback = Callable[[trainer.Episode, Method, ShiftTask], Any]

# Encoder kind by its GraphGym name or its short name.
KINDS = {kind: kind for kind in BACKBONES} | {
    encoder.__name__.lower(): kind for kind, encoder in BACKBONES.items()
}
# Field of the encoder specification by the name of the estimator parameter.
ENCODER = {"backbone": "kind", "activation": "act"} | {
    name: name for name in ("layers", "hidden", "dropout", "heads", "features")
}
THREADS = Range(1, environment.MAX_THREADS, word=environment.AUTO)  # allowed num_threads

APART = ("callbacks", "class_weight", "open_set", "verbose")  # have checks of their own

# Accepted types for each parameter type.
TYPES: dict[type, Any] = {
    bool: (bool, np.bool_),
    int: numbers.Integral,
    float: numbers.Real,
    str: str,
    list: (list, tuple, np.ndarray),
}


def shared(
    *,
    backbone: Annotated[str, OneOf(*KINDS)] = "gcn",
    hidden: Count = 256,
    layers: Few = 2,
    dropout: Annotated[float, Range(0, 1, closed="left")] = 0.5,
    activation: Annotated[str, OneOf(*ACTIVATIONS)] = "relu",
    heads: Count = 8,
    features: Annotated[str, OneOf(*FEATURES)] = "auto",
    lr: Weight = 0.01,
    weight_decay: Weight = 5e-4,
    selection: Annotated[str, OneOf("auto", *SELECTIONS)] = "auto",
    max_episodes: Annotated[int, Range(-1)] = -1,
    patience: Natural = 0,
    open_set: bool | None = None,
    class_weight: dict[Any, float] | str | None = None,
    random_state: Annotated[int, Range(0, 2**32 - 1)] = 0,
    num_threads: Annotated[int | str, THREADS] = environment.AUTO,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
) -> None:
    """Parameters of every estimator.

    Args:
        backbone: encoder, by its short name or GraphGym's.
        hidden: width of the hidden layers.
        layers: number of layers, including the output layer.
        dropout: dropout probability of the hidden layers.
        activation: activation of the hidden layers.
        heads: number of attention heads of ``gat``. The heads share the ``hidden`` units.
        features: feature scaling: ``row`` (each row sums to 1), ``l2`` (each row has length 1),
            ``auto`` (``l2``, and dense features are centred first) or ``none``.
        lr: learning rate of Adam.
        weight_decay: weight decay of Adam.
        selection: criterion of the best episode. ``auto`` depends on the labels, see ``fit``.
        max_episodes: maximum number of episodes after episode 0; -1 = as the method asks for.
        patience: stop after this number of episodes in a row without a better score; 0 = never.
        open_set: whether the target may contain classes that the training nodes do not have; None =
            inferred from the labels, see ``fit``.
        class_weight: weight of the labelled nodes of each class by its label, ``balanced`` (inverse
            to the number of labels of the class) or None. Not saved.
        random_state: seed of all random numbers drawn in training. None is not allowed, so that
            every fit can be repeated.
        num_threads: number of CPU threads for training and prediction. ``auto`` uses one thread if
            the graph has fewer than a million directed edges, else two. The previous setting of
            torch is restored afterwards.
        callbacks: functions called after each episode with it, the method and the task; not saved.
            Training stops if one of them returns True.
        verbose: 1 prints each episode on stderr, 2 also its gradient steps.
    """


def checked(
    method: type[Method], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Valid options of a method, and the shared parameters that are saved with a model."""
    callbacks = given["callbacks"]
    open_set = given["open_set"]
    plain = {
        option.key: typed(option.key, given[option.key], option.type)
        for option in (*options(method), *options(shared))
        if option.key in given and option.key not in APART
    }
    check(method, plain)
    check(shared, plain)
    if not isinstance(open_set, (bool, type(None))):
        raise InputError("open_set", open_set, "None, True, False")
    if not isinstance(callbacks, (list, tuple)) or not all(map(callable, callbacks)):
        raise InputError(
            "callbacks", callbacks, "a list of functions of an episode, the method and the task"
        )
    own = {option.key: plain.pop(option.key) for option in options(method)}
    return own, plain | {"open_set": open_set}


def new_method(method: type[Method], own: dict[str, Any], shared: dict[str, Any]) -> Method:
    """Untrained method with its ``own`` (validated) options and the ``shared`` parameters."""
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


def typed(name: str, value: Any, kind: type) -> Any:
    """The value as a plain Python object of this kind.

    Raises:
        InputError: it is of another kind.
    """
    kind = list if kind is tuple else kind
    if name == "num_threads" and not isinstance(value, str):
        kind = int
    is_other = isinstance(value, bool) and kind is not bool
    if is_other or not isinstance(value, TYPES[kind]) or not finite(value):
        raise InputError(name, value, kind.__name__)
    return [typed(name, item, float) for item in value] if kind is list else kind(value)

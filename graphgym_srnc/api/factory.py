"""Construction of the estimator class of each method from its signature and docstring."""

from __future__ import annotations

import functools
import inspect
import os
import textwrap
from typing import Any, Sequence

from graphgym_srnc import methods
from graphgym_srnc.api import parameters
from graphgym_srnc.api.estimator import Estimator
from graphgym_srnc.api.isolation import plain
from graphgym_srnc.core.formulas import readable
from graphgym_srnc.core.options import OneOf, docs, options, sections
from graphgym_srnc.core.plugins import usable
from graphgym_srnc.errors import did_you_mean
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import model, trainer


def estimators() -> dict[str, type[Estimator]]:
    """All estimator classes by name, for example ``SRNC``."""
    return {made.__name__: made for made in usable(estimator, methods.names()).values()}


def estimator(name: str) -> type[Estimator]:
    """Estimator class of a method, for example ``srnc``. Repeated calls return the same class.

    Raises:
        InputError: there is no such method.
    """
    return _make(methods.find(name))  # type: ignore[arg-type]  # a class has a hash


@plain()
def load(path: str | os.PathLike[str]) -> Estimator:
    """Load a trained model saved by ``Estimator.save`` or by a run.

    The loaded model makes exactly the same predictions. Code in the file is never executed. A run's
    model has its scores, record and warnings only in the folder of the run.

    Raises:
        InputError: the file does not exist, is not a model file, or is damaged.
    """
    trained = model.load(path)
    with model.refused(path):
        loaded = estimator(trained.method.key())(**parameters.of_model(trained))
        parameters.checked(loaded._method, loaded.get_params(deep=False))
        record = trained.facts.get("record")
        if record is None and (run := trained.result):
            names = trainer.RunRecord.__dataclass_fields__
            record = {name: run[name] for name in names if name in run} | {"best": run["selected"]}
        loaded._become(trained, record and trainer.RunRecord.of(record))
    return loaded


@functools.cache
def _make(method: type[Method]) -> type[Estimator]:
    found = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for option in options(method):
        default = option.default
        kind = option.type
        if kind in (list, tuple):  # a list default would be shared and mutable
            default = tuple(option.default)
            kind = Sequence[float]
        keyword = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(option.key, keyword, default=default, annotation=kind))
    # The shared parameters have the defaults of the method, and no ranges of values.
    for entry in inspect.signature(parameters.shared, eval_str=True).parameters.values():
        default = method.encoder_defaults.get(parameters.ENCODER.get(entry.name, ""), entry.default)
        kind = getattr(entry.annotation, "__origin__", entry.annotation)
        found.append(entry.replace(default=default, annotation=kind))
    signature = inspect.Signature(found)

    def __init__(self, **params: Any) -> None:
        try:
            bound = signature.bind(self, **params)
        except TypeError as error:
            (name, *_) = params.keys() - signature.parameters.keys()
            hint = f"See help({method.__name__}). The device is that of the data"
            hint = did_you_mean(name, signature.parameters, hint)
            raise TypeError(f"{__init__.__qualname__}() {error}. {hint}") from None
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{method.__name__}.__init__"
    members = {"__init__": __init__, "__doc__": _doc(method), "_method": method}
    return type(method.__name__, (Estimator,), {**members, "__module__": "graphgym_srnc"})


def _doc(method: type[Method]) -> str:
    """The docstring of a method with parameters and attributes first, and its theory last."""
    parts = sections(method)
    summary, _, theory = readable(parts[""]).partition("\n\n")
    args = entries(arguments(method))
    fitted = entries(docs(Estimator, "Attributes"))
    references = f"References:\n{parts['References']}" if "References" in parts else ""
    return f"{summary}\n\nArgs:\n{args}\n\nAttributes:\n{fitted}\n\n{theory}\n\n{references}"


def arguments(method: type[Method]) -> dict[str, str]:
    """Description of each parameter of an estimator, with its choices."""
    texts = {option.key: option.doc for option in options(method)} | docs(parameters.shared)
    for option in (*options(method), *options(parameters.shared)):
        if isinstance(option.allowed, OneOf):
            texts[option.key] += f" Allowed: {option.allowed}."
    return {name: readable(text) for name, text in texts.items()}


def entries(texts: dict[str, str]) -> str:
    """Entries of a section of a docstring."""
    wrap = functools.partial(textwrap.fill, width=92, break_on_hyphens=False)
    lines = (wrap(f"{name}: {text}", subsequent_indent=" " * 4) for name, text in texts.items())
    return textwrap.indent("\n".join(lines), " " * 4)

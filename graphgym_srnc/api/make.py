"""Construction of the estimator class of each method from its signature and docstring."""

from __future__ import annotations

import functools
import inspect
import os
import textwrap
from typing import Annotated, Any, Sequence

from graphgym_srnc import methods
from graphgym_srnc.api import parameters
from graphgym_srnc.api.estimator import Estimator, plain
from graphgym_srnc.core.options import Option, docs, options
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import model, trainer

ATTRIBUTES = {
    "classes_": "label of each class, in the column order of ``predict_proba``; in open-set"
    " shift the unknown class is last.",
    "scores_": "scores on ``val`` and ``test`` nodes; empty if there are no such nodes.",
    "record_": "history of all episodes, and the selected episode.",
    "warnings_": "problems that did not stop the training.",
    "verdict_": "diagnostics of the predictions: ``figures``, ``sentences`` on figures beyond their"
    " bounds, and ``reliability`` curves.",
    "n_features_in_": "number of features.",
    "method_": "the trained method, without its training graphs.",
}


def estimators() -> dict[str, type[Estimator]]:
    """All estimator classes by name, for example ``SRNC``."""
    return {made.__name__: made for made in map(estimator, methods.names())}


def estimator(name: str) -> type[Estimator]:
    """Estimator class of a method, for example ``srnc``. Repeated calls return the same class.

    Raises:
        InputError: there is no such method.
    """
    return _make(methods.find(name))  # type: ignore[arg-type]  # a class has a hash


@plain()
def load(path: str | os.PathLike) -> Estimator:
    """Load a trained model saved by :meth:`Estimator.save` or by a run.

    The loaded model makes exactly the same predictions. Code in the file is never executed. The
    model of a run has no scores, record and diagnostics; the run's ``result.json`` stores them.

    Args:
        path: the model file.

    Returns:
        The fitted estimator.

    Raises:
        InputError: the file does not exist, is not a model file, or is damaged.
    """
    trained = model.load(path)
    with model.refused(path):
        loaded = estimator(trained.name)(**parameters.of_model(trained))
        parameters.checked(loaded)
        record = trained.facts.get("record")
        if record is not None:
            record = trainer.RunRecord.of(record)
        loaded._become(trained, record, trained.facts.get("scores"))
    return loaded


@functools.cache
def _make(method: type[Method]) -> type[Estimator]:
    self, *common = inspect.signature(Estimator.__init__, eval_str=True).parameters.values()
    usual = {
        name: method.encoder_defaults[field]
        for name, field in parameters.ENCODER.items()
        if field in method.encoder_defaults
    }
    signature = inspect.Signature(
        [
            self,
            *map(_parameter, options(method)),
            *(entry.replace(default=usual.get(entry.name, entry.default)) for entry in common),
        ]
    )

    def __init__(self, **params: Any) -> None:
        try:
            bound = signature.bind(self, **params)
        except TypeError as error:
            raise TypeError(f"{__init__.__qualname__}() {error}") from None
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{method.__name__}.__init__"
    return type(
        method.__name__,
        (Estimator,),
        {
            "__init__": __init__,
            "__signature__": _plain(signature),
            "__doc__": _doc(method),
            "__module__": "graphgym_srnc",
            "_method": method,
        },
    )


def _parameter(option: Option) -> inspect.Parameter:
    """Estimator parameter that sets an option of the method."""
    is_list = option.type in (list, tuple)
    kind = Sequence[float] if is_list else option.type
    annotation = kind if option.allowed is None else Annotated[kind, option.allowed]
    # A list default would be shared and mutable.
    default = tuple(option.default) if is_list else option.default
    return inspect.Parameter(
        option.key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _plain(signature: inspect.Signature) -> inspect.Signature:
    """The signature that ``help`` shows: without ``self`` and the ranges of values."""
    return inspect.Signature(
        [
            entry.replace(annotation=getattr(entry.annotation, "__origin__", entry.annotation))
            for entry in list(signature.parameters.values())[1:]
        ]
    )


def _doc(method: type[Method]) -> str:
    def entries(texts: dict[str, str]) -> str:
        return "\n".join(
            textwrap.fill(
                f"{name}: {text}",
                100,
                initial_indent=" " * 4,
                subsequent_indent=" " * 8,
                break_on_hyphens=False,
            )
            for name, text in texts.items()
        )

    args = {option.key: option.doc for option in options(method)} | docs(Estimator)
    text, _, references = (inspect.getdoc(method) or "").partition("References:\n")
    about = text.partition("Args:")[0].strip()
    end = f"\nReferences:\n{references}\n" if references else ""
    return f"{about}\n\nArgs:\n{entries(args)}\n\nAttributes:\n{entries(ATTRIBUTES)}\n{end}"

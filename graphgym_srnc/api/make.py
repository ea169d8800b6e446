"""An estimator class for each method, made of its signature and its docstring; the shipped settings; models from files."""
from __future__ import annotations

import inspect
import json
import os
import textwrap
from typing import Any, Sequence

import torch
import yaml

from graphgym_srnc import methods
from graphgym_srnc.api import parameters
from graphgym_srnc.api.estimator import FORMAT, Estimator
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.options import docs, options
from graphgym_srnc.settings import config_root
from graphgym_srnc.task import Sizes
from graphgym_srnc.train import trainer

ATTRIBUTES = {
    "classes_": "label of each class, in the order of the columns of ``predict_proba``; in open-set shift the unknown one comes last.",
    "scores_": "scores on ``val`` and on ``test``, empty where there is no such node.",
    "record_": "the history of all episodes, and which one was taken.",
    "warnings_": "what went wrong without stopping the training.",
    "verdict_": "what is odd about the predictions: ``figures``, ``sentences`` of those beyond their bound, and ``reliability`` curves.",
    "n_features_in_": "number of features.",
    "method_": "the trained method, without the graphs it was trained on.",
}

PLUS = "paper/open_set/cora-srnc-plus.yaml"

_made: dict[type[Method], type[Estimator]] = {}


def estimators() -> dict[str, type[Estimator]]:
    """Every estimator by its name, e.g. ``SRNC``."""
    return {made.__name__: made for made in map(estimator, methods.names())}


def estimator(name: str) -> type[Estimator]:
    """The estimator of a method, e.g. of ``srnc``; always the same class.

    Raises:
        InputError: there is no such method.
    """
    method = methods.find(name)
    return _made.get(method) or _made.setdefault(method, _make(method))


def load(path: str | os.PathLike) -> Estimator:
    """A trained model from a file that :meth:`Estimator.save` has written; it predicts the same bits. No code in a file is run.

    Raises:
        InputError: there is no such file, or it is none of ours.
    """
    try:
        with torch.sparse.check_sparse_tensor_invariants():
            content = torch.load(path, weights_only=True, map_location="cpu")
        about = json.loads(content["about"])
        if about["format"] != FORMAT:
            raise ValueError(f"format {about['format']} of version {about['version']}, this one reads {FORMAT}")
        params = {name: tuple(value) if isinstance(value, list) else value for name, value in about["params"].items()}
        model = estimator(about["method"].lower())(**params)
        plain = parameters.checked(model._method, model.get_params(deep=False))
        record = trainer.RunRecord(**about["record"] | {"history": [trainer.Episode(**episode) for episode in about["record"]["history"]]})
        model._become(plain, content["state"], Sizes(**about["sizes"]), about["classes"], record, about["scores"])
    except OSError as error:
        raise InputError("path", str(path), f"a model that save() has written ({error.strerror})") from error
    except (TypeError, ValueError) as error:
        raise InputError("path", str(path), f"a model that save() has written ({textwrap.shorten(str(error), 200)})") from error
    except Exception as error:  # torch has no error of its own for a file that is none of its own
        # Of these errors torch says that it could run the code in the file.
        raise InputError("path", str(path), "a model that save() has written; this file is damaged, or of something else") from error
    return model


def _make(method: type[Method]) -> type[Estimator]:
    own = [inspect.Parameter(option.key, inspect.Parameter.KEYWORD_ONLY, annotation=Sequence[float] if option.type is list else option.type,
                             # A list that all estimators share could be changed by one of them.
                             default=tuple(option.default) if option.type is list else option.default) for option in options(method)]
    self, *common = inspect.signature(Estimator.__init__, eval_str=True).parameters.values()
    signature = inspect.Signature([self, *own, *common])

    def __init__(self, **params: Any) -> None:
        try:
            bound = signature.bind(self, **params)
        except TypeError as error:
            raise TypeError(f"{__init__.__qualname__}() {error}") from None
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature
    __init__.__qualname__ = f"{method.__name__}.__init__"
    body = {"__init__": __init__, "__doc__": _doc(method), "__module__": "graphgym_srnc", "_method": method}
    if method.__name__ == "SRNC":
        body["plus"] = classmethod(plus)
    return type(method.__name__, (Estimator,), body)


def plus(cls: type[Estimator], **changes: Any) -> Estimator:
    """SRNC+, the one setting of the configs ``*-srnc-plus`` for all graphs and both kinds of shift, with changes.

    It goes beyond the paper and is the one to get a prediction from; ``SRNC()`` has the method's own defaults, which stay close to it.
    """
    tree = yaml.safe_load((config_root() / PLUS).read_text(encoding="utf-8"))
    return cls(**{"hidden": tree["gnn"]["dim_inner"], **tree["srnc"], **changes})


def _doc(method: type[Method]) -> str:
    def entries(told: dict[str, str]) -> str:
        return "\n".join(textwrap.fill(f"{name}: {text}", 110, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
                         for name, text in told.items())

    told = {option.key: option.doc for option in options(method)} | docs(Estimator)
    about = (inspect.getdoc(method) or "").partition("Args:")[0].strip()
    return f"{about}\n\nArgs:\n{entries(told)}\n\nAttributes:\n{entries(ATTRIBUTES)}\n"

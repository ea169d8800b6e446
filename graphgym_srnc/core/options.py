"""Options defined by keyword-only signatures, whose annotations give the allowed values.

    def __init__(self, *, steps: Count = 100, kind: Annotated[str, OneOf("a", "b")] = "a"):

Such a signature defines the config key, its type, default and validation, its entry in the
documentation, and the parameter of the estimator.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import re
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Callable,
    Mapping,
    NamedTuple,
    Sequence,
    Union,
    get_args,
)

from graphgym_srnc.errors import InputError, not_one_of

SHARED = ("name", "root")  # keywords of a shift that dataset.name and dataset.dir set
PLAIN = (bool, int, float, str, list, tuple)  # types of options


def finite(value: Any) -> bool:
    """Whether a value or list contains neither NaN nor infinity."""
    if isinstance(value, (list, tuple)):
        return all(map(finite, value))
    number: Any = value  # an integer may be too large for a float
    return not isinstance(value, numbers.Real) or abs(number) < math.inf


@dataclass(frozen=True)
class Range:
    """Numbers, or lists of numbers, from ``low`` to ``high``; a ``word`` is allowed instead.

    ``closed`` names the bounds that are allowed: ``both``, ``left``, ``right`` or ``neither``. A
    subclass is never equal to it, since ``typing`` keeps one of equal annotations.
    """

    low: float = -math.inf
    high: float = math.inf
    closed: str = "both"
    word: str | None = None

    def allows(self, value: Any) -> bool:
        """Whether a number, or every item of a list, lies in the range; NaN never does."""
        if isinstance(value, (list, tuple)):
            return all(map(self.allows, value))
        if isinstance(value, str) or value is None or not finite(value):
            return isinstance(value, str) and value == self.word
        at_low = value == self.low and self.closed in ("both", "left")
        at_high = value == self.high and self.closed in ("both", "right")
        return self.low < value < self.high or at_low or at_high

    def refuse(self, key: str, value: Any) -> InputError:
        """The error about a value that is not in the range."""
        return InputError(key, value, str(self))

    def __str__(self) -> str:
        left = self.closed in ("both", "left")
        right = self.closed in ("both", "right")
        word = f"{self.word}, or " if self.word else ""
        if self.high == math.inf:
            return word + (f"{self.low:g} or more" if left else f"above {self.low:g}")
        begin = "[" if left else "("
        end = "]" if right else ")"
        return f"{word}in {begin}{self.low:g}, {self.high:.10g}{end}"


class OneOf:
    """One of several values, or a list of such values."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def allows(self, value: Any) -> bool:
        """Whether the value, or every item of a list, is one of the allowed values."""
        if isinstance(value, (list, tuple)):
            return all(map(self.allows, value))
        return value in self.values

    def refuse(self, key: str, value: Any) -> InputError:
        """The error about another value, which suggests the one most like it."""
        return not_one_of(key, value, map(str, self.values))

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


Allowed = Union[Range, OneOf]

MOST = 10**9  # of a count; with more, an allocation fails or a loop does not end
Count = Annotated[int, Range(1, MOST)]
Natural = Annotated[int, Range(0, MOST)]
Few = Annotated[int, Range(1, 1000)]
"""Number of parts of a network, each of which takes time at every prediction."""
Steps = Annotated[int, Range(0, 1000)]
"""Number of steps over a graph at every prediction, which have converged long before."""
Weight = Annotated[float, Range(0)]
Positive = Annotated[float, Range(0, closed="neither")]
Share = Annotated[float, Range(0, 1)]


class Option(NamedTuple):
    """One configurable option, described by ``doc``; ``allowed`` None = any value."""

    key: str
    type: type
    default: Any
    doc: str
    allowed: Allowed | None = None


def _options(function: Any) -> list[Option]:
    """Options of a function or class, with a class's own options before inherited ones.

    Options are the keyword-only parameters with a default of a plain type.
    """
    found: dict[str, Option] = {}
    classes = function.__mro__ if isinstance(function, type) else ()
    for owner in [cls for cls in classes if "__init__" in vars(cls)] or [function]:
        explained = docs(owner)
        call = vars(owner)["__init__"] if classes else owner
        for p in inspect.signature(call, eval_str=True).parameters.values():
            kind = type(p.default)
            if p.kind is not p.KEYWORD_ONLY or p.name in SHARED or kind not in PLAIN:
                continue
            allowed = getattr(p.annotation, "__metadata__", (None,))[0]
            option = found.setdefault(p.name, Option(p.name, kind, p.default, "", allowed))
            # A class that only changes the default inherits the description.
            found[p.name] = option._replace(doc=option.doc or explained.get(p.name, ""))
    return list(found.values())


options: Callable[[Any], list[Option]] = functools.cache(_options)


def check_signature(function: Any, key: str, given: Sequence[str] = SHARED) -> None:
    """Refuse a function, or a class and its bases, with an argument that cannot be an option.

    Arguments in ``given`` are set by the package. The InputError has the ``key``.
    """
    owners = [cls for cls in getattr(function, "__mro__", ()) if "__init__" in vars(cls)]
    known = {"self", *given}
    for call in [vars(owner)["__init__"] for owner in owners] or [function]:
        name = call.__qualname__.removesuffix(".__init__")
        try:
            parameters = inspect.signature(call, eval_str=True).parameters.values()
        except Exception as error:  # an annotation may be any expression
            raise InputError.plain(
                key, f"an annotation in {name} cannot be read ({error})", "Import or correct it"
            ) from error
        for p in parameters:
            argument = f"the argument {p.name!r} of {name}"
            if p.kind is p.KEYWORD_ONLY and type(p.default) in PLAIN and p.name not in SHARED:
                _check_default(p, key, argument)
            elif p.name not in known and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                raise InputError.plain(
                    key,
                    f"{argument} cannot be an option",
                    "Make it keyword-only, with a number, text, bool or tuple as its default"
                    "; None is not allowed",
                )
            known.add(p.name)


def _check_default(option: inspect.Parameter, key: str, name: str) -> None:
    """Refuse a default that its annotation does not allow; without annotation any is allowed."""
    annotation = option.annotation
    base, *extra = get_args(annotation) if hasattr(annotation, "__metadata__") else [annotation]
    kind = type(option.default)
    is_typed = base in (option.empty, kind) or kind in (list, tuple)
    if not is_typed or not all(
        isinstance(allowed, (Range, OneOf)) and allowed.allows(option.default) for allowed in extra
    ):
        shown = ", ".join(map(str, [getattr(base, "__name__", base), *extra]))
        raise InputError.plain(
            key,
            f"{name} has the annotation {shown} and the default {option.default!r}",
            "Give a default of this type: bool, int, float, str, list or tuple. Limit it with"
            " Range or OneOf that allow the default",
        )


def check(function: Callable[..., Any], values: Mapping[str, Any], prefix: str = "") -> None:
    """Validate option values against the annotations of a function or class.

    NaN and infinity are never valid. Keys that are no options are ignored. An InputError names the
    option after the ``prefix``.
    """
    for option in options(function):
        if option.key not in values:
            continue
        key = f"{prefix}{option.key}"
        value = values[option.key]
        if option.allowed is not None and not option.allowed.allows(value):
            raise option.allowed.refuse(key, value)
        if not finite(value):
            raise InputError(key, value, "finite numbers")


def check_types(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Raise a ValueError if a value from a file is not of the type of its option."""
    for option in options(function):
        value = values.get(option.key, option.default)
        # JSON has no tuples, and may write a float as an integer.
        written = {float: (int, float), tuple: (list, tuple)}.get(option.type, (option.type,))
        if type(value) not in written:
            raise ValueError(f"the option {option.key} is {str(value)[:50]!r}")


def checked(function: Callable[..., Any], prefix: str = "") -> Callable[..., Any]:
    """The function wrapped with ``check`` of its keyword arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(function, kwargs, prefix)
        return function(*args, **kwargs)

    return call


def docs(documented: Any, section: str = "Args") -> dict[str, str]:
    """Description of each entry in a section of a docstring, one line each."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in sections(documented).get(section, "").splitlines():
        entry = re.match(r" {4}(\w[\w, ]*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
        for name in names:
            found[name] = f"{found.get(name, '')} {entry[2] if entry else line.strip()}".strip()
    return found


def sections(documented: Any) -> dict[str, str]:
    """Sections of a docstring in Google style by title; the text before the first one has none."""
    parts = re.split(r"^([A-Z][a-z]+):\n(?= {4})", inspect.getdoc(documented) or "", flags=re.M)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], parts[2::2]))}

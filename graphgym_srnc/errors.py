"""Errors of bad input: what is wrong, where, and what to do, in one line."""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import re
import shlex
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Sequence

ENDS = (".", "?", "!")  # of a sentence
OPTION = re.compile(r"`(\w+)(?:=([^`]+))?`")
"""An option in a message, as an argument of Python: `` `label` `` or `` `label='none'` ``."""

ALIKE = 0.66  # similarity, from 0 to 1, above which a name may be a typing error of another


class InputError(ValueError):
    """Bad input, raised before any long work.

    An error about the value of an option reads ``KEY: got VALUE; allowed: ALLOWED``. An error about
    anything else is made by ``plain``.

    Args:
        key: Config key, file or argument at fault, e.g. ``open_set.unseen``.
        value: The value given.
        allowed: The values that are allowed, in words.
        code: Name of the error, for an interface that words it; see ``cli.words``.
    """

    def __init__(self, key: str, value: Any, allowed: str, code: str = "") -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        self.code = code
        self._say(f"got {value!r}; allowed: {allowed}")

    @classmethod
    def plain(cls, key: str, message: str, hint: str = "", code: str = "") -> InputError:
        """An error in plain sentences: ``KEY: MESSAGE. HINT.``

        Args:
            key: Config key, file or argument at fault.
            message: What is wrong, a sentence in lower case without its full stop.
            hint: What to do, sentences in upper case, the last without its full stop.
            code: See the class.
        """
        error = cls(key, None, hint, code)
        error._say(_sentence(message))
        return error.advised(hint) if hint else error

    def advised(self, hint: str) -> InputError:
        """The same error, followed by what to do."""
        more = f" {_sentence(hint)}" if self.message.endswith(ENDS) else f"; {hint}"
        return self._changed(self.key, self.message + more)

    def at(self, key: str) -> InputError:
        """The same error under another key."""
        return self._changed(key, self.message)

    def noted(self, note: str) -> InputError:
        """The same error with a remark in parentheses at its end."""
        return self._changed(self.key, f"{self.message} ({note})")

    def renamed(self, names: Mapping[str, str]) -> InputError:
        """The same error with other names of its key and of the options in its message."""
        return self._changed(names.get(self.key, self.key), in_words(self.message, names))

    def _changed(self, key: str, message: str) -> InputError:
        error = copy.copy(self)
        error.key = key
        error._say(message)
        return error

    def _say(self, message: str) -> None:
        self.message = message
        self.args = (f"{self.key}: {message}",)

    def __reduce__(self) -> tuple[Any, ...]:
        return InputError.__new__, (type(self),), {**vars(self), "args": self.args}


class ShiftWarning(RuntimeWarning):
    """Warning of this package about data, a fit or its predictions."""


def _sentence(text: str) -> str:
    return text if text.endswith(ENDS) else f"{text}."


class InputErrors(InputError):
    """Several errors at once; each is printed on a line of its own."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.key = errors[0].key
        self.value = errors[0].value
        self.code = errors[0].code
        self.errors = list(errors)
        self.message = "; ".join(map(str, errors)).replace(".; ", "; ")
        self.args = (self.message,)

    def noted(self, note: str) -> InputErrors:
        """The same errors, each with a remark in parentheses at its end."""
        return InputErrors([error.noted(note) for error in self.errors])


def each(error: InputError) -> list[InputError]:
    """The errors that an error consists of."""
    return error.errors if isinstance(error, InputErrors) else [error]


def joined(errors: Sequence[InputError]) -> InputError:
    """One or several errors as one."""
    return errors[0] if len(errors) == 1 else InputErrors(errors)


class Collected:
    """Errors of several independent steps, so that a user can fix all of them at once."""

    def __init__(self) -> None:
        self.errors: list[InputError] = []

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Collect the errors that this block raises."""
        try:
            yield
        except InputError as error:
            self.errors += each(error)

    def check(self) -> None:
        """Raise the collected errors, if there are any."""
        if self.errors:
            raise joined(self.errors)


@contextlib.contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """Rename the options in errors that this block raises; ``names`` maps old names to new ones."""
    try:
        yield
    except InputError as error:
        raise joined([one.renamed(names) for one in each(error)]) from error.__cause__


def option(name: str, value: Any = None) -> str:
    """An option in a message, with a value if it is not None; see :func:`in_words`."""
    text = "" if value is None else f"={value!r}".replace("`", r"\x60")
    return f"`{name}{text}`"


def in_words(text: str, names: Mapping[str, str]) -> str:
    """A message in which an option of :data:`OPTION` is written as an interface writes it.

    With ``{"label": "--label"}``, `` `label='none'` `` becomes ``--label none``. A ``True`` of a
    name that begins with ``--`` is the option alone. An option without a new name stays as it is.
    """

    def written(found: re.Match[str]) -> str:
        if found[1] not in names:
            return found[0]
        name = names[found[1]]
        try:
            given = ast.literal_eval(found[2]) if found[2] else ()
        except (SyntaxError, ValueError):  # it is text of a user
            return found[0]
        if isinstance(given, bool) and name.startswith("--"):
            return name if given else f"{name[:2]}no-{name[2:]}"
        values = given if isinstance(given, (list, tuple)) else [given]
        return shlex.join([name, *map(str, values)])

    return OPTION.sub(written, text)


@contextlib.contextmanager
def reading(file: Path, kind: str, key: str = "path", hint: str = "") -> Iterator[None]:
    """Turn any error of a library that reads a file into an ``InputError``."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each library has errors of its own
        name = "it" if key == file.name else file.name
        raise InputError.plain(key, f"{name} is not {kind} ({reason(error)})", hint) from error


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """``Did you mean A?`` of the name most like this one, or ``otherwise``.

    A name with a path, such as ``srnc.rounds``, is also compared by its last part, a layer without
    ``conv``, and a run without the ``own-`` that names it by default.
    """
    forms: dict[str, str] = {}
    for known in names:
        last = re.split(r"[./]", known.lower())[-1]
        for form in (known.lower(), last, last.removesuffix("conv"), last.removeprefix("own-")):
            forms.setdefault(form, known)
    near = difflib.get_close_matches(name.lower().removeprefix("graph"), forms, 1, ALIKE)
    return f"Did you mean {forms[near[0]]}?" if near else otherwise


def not_one_of(key: str, value: Any, names: Iterable[str]) -> InputError:
    """The error about a value that is none of ``names``; it suggests the one most like it."""
    names = [*names]
    error = InputError(key, value, ", ".join(names))
    near = did_you_mean(str(value), names)
    return error.noted(near) if near and isinstance(value, str) else error


def reason(error: Exception) -> str:
    """What a library says is wrong with a file, on one line; not how torch would run its code."""
    text = " ".join(str(error).split())
    foreign = re.search(r"GLOBAL (\S+)", text)
    text = f"it contains {foreign[1]}" if foreign else text.rpartition("WeightsUnpickler error:")[2]
    return text.strip()[:200] or type(error).__name__

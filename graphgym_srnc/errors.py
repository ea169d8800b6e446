"""The one error that a user sees for bad input: the key, the value given and what is allowed."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping, Sequence


class InputError(ValueError):
    """Bad input, told in one line before any long work.

    Args:
        key: the config key, file or argument at fault, e.g. ``open_set.unseen``.
        value: the value given.
        allowed: what would have been right, in words.
    """

    def __init__(self, key: str, value: Any, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        super().__init__(f"{key}: got {value!r}; allowed: {allowed}")


class InputErrors(InputError):
    """Several of them at once; each is told on a line of its own."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.key, self.value, self.allowed = errors[0].key, errors[0].value, errors[0].allowed
        self.errors = list(errors)
        ValueError.__init__(self, "; ".join(map(str, errors)))


class Collected:
    """Bad input of several independent steps, so that a user mends all of it in one go."""

    def __init__(self) -> None:
        self.errors: list[InputError] = []

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """What is wrong in here is kept for later."""
        try:
            yield
        except InputErrors as several:
            self.errors += several.errors
        except InputError as error:
            self.errors.append(error)

    def check(self) -> None:
        """Tell what was kept, if there is anything.

        Raises:
            InputError: there is.
        """
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else InputErrors(self.errors)


@contextlib.contextmanager
def renamed(keys: Mapping[str, str]) -> Iterator[None]:
    """Bad input in here is named as the caller's user knows it: ``keys`` has his names by ours."""
    try:
        yield
    except InputError as error:
        if error.key not in keys:
            raise
        raise InputError(keys[error.key], error.value, error.allowed) from error

"""The one error that a user sees for bad input: the key, the value given and what is allowed."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping


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


@contextlib.contextmanager
def renamed(keys: Mapping[str, str]) -> Iterator[None]:
    """Bad input in here is named as the caller's user knows it: ``keys`` has his names by ours."""
    try:
        yield
    except InputError as error:
        if error.key not in keys:
            raise
        raise InputError(keys[error.key], error.value, error.allowed) from error

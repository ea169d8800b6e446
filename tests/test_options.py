"""Options out of signatures: ranges, their checks and words, and errors by the caller's names."""

from __future__ import annotations

import math
import pickle
from typing import Annotated, Optional

import numpy as np
import pytest

from graphgym_srnc.core import options
from graphgym_srnc.core.options import (
    Count,
    Few,
    Natural,
    OneOf,
    Option,
    Positive,
    Range,
    Share,
    Steps,
)
from graphgym_srnc.errors import InputError, InputErrors, did_you_mean, renamed


class Base:
    """Something with options.

    Args:
        steps: how often,
            and how long.
        rate: how fast.

    Raises:
        InputError: never.
    """

    def __init__(self, *, steps: Count = 3, rate: Share = 0.5, other: object = None) -> None:
        self.steps = steps
        self.rate = rate


class Silent(Base):
    """It has no options of its own."""


class Derived(Silent):
    """Something with more of them.

    Args:
        kind: which one.
    """

    def __init__(
        self, *, kind: Annotated[str, OneOf("a", "b")] = "a", steps: Natural = 0, names: tuple = ()
    ) -> None:
        super().__init__(steps=steps)


@options.checked
def area(width: float, *, height: Positive = 1.0, name: str = "") -> float:
    """The area.

    Args:
        height: how high.
    """
    return width * height


@pytest.mark.parametrize(
    "closed, low, high", [("both", 1, 1), ("left", 1, 0), ("right", 0, 1), ("neither", 0, 0)]
)
def test_ends_of_a_range(closed, low, high):
    bounds = Range(0, 2, closed)
    assert (bounds.allows(0), bounds.allows(2)) == (low, high)
    assert bounds.allows(1) and bounds.allows(np.float32(1)) and bounds.allows([0.5, 1.5])
    for value in (-0.1, 2.1, math.nan, -math.inf, math.inf, [1, 3], (1, math.nan), "1", None):
        assert not bounds.allows(value), value
    assert OneOf("a", "b").allows(["a", "b"]) and OneOf("a").allows([])
    assert not OneOf("a", "b").allows(["a", "c"]) and not OneOf("a", "b").allows("c")


def test_options_are_a_class_s_own_and_then_inherited_ones():
    names = OneOf("a", "b")
    found = options.options(Derived)
    assert [option.key for option in found] == ["kind", "steps", "names", "rate"]
    assert found[0].doc == "which one." and str(found[0].allowed) == str(names)
    # It has another default and range, and the explanation of the base.
    assert found[1] == Option("steps", int, 0, "how often, and how long.", Range(0, 10**9))
    assert found[2] == Option("names", tuple, (), "", None)
    assert found[3] == Option("rate", float, 0.5, "how fast.", Range(0, 1))
    assert [option.key for option in options.options(Silent)] == ["steps", "rate"]
    assert options.options(area) == [
        Option("height", float, 1.0, "how high.", Range(0, closed="neither"))
    ]
    with pytest.raises(InputError, match="^height: got 0.0; allowed: above 0"):
        area(2.0, height=0.0)


@pytest.mark.parametrize("value", [math.nan, -math.inf, [1.0, math.nan], [[math.inf]]])
def test_no_option_is_nan_or_infinite(value):
    def free(*, rate: float = 0.5, names: list = [], steps: Count = 1) -> None:  # noqa: B006
        """An option without a range."""

    for key in ("rate", "names", "steps"):
        with pytest.raises(InputError, match=key):
            options.check(free, {key: value})
    options.check(free, {"rate": 1e300, "names": ["nan", 10**400], "steps": 10**9, "unheard": -1})


def test_counts_that_no_machine_can_count_to_are_refused():
    def counted(*, steps: Count = 1, layers: Few = 1, hops: Steps = 0) -> None:
        """Numbers of parts."""

    for key, value in (("steps", 10**9 + 1), ("layers", 1001), ("hops", 1001)):
        options.check(counted, {key: value - 1})
        with pytest.raises(InputError, match=f"^{key}: got {value}"):
            options.check(counted, {key: value})


@pytest.mark.parametrize(
    "given", [{"steps": 2.0}, {"steps": True}, {"rate": "1"}, {"names": "ab"}, {"kind": 1}]
)
def test_types_of_values_from_a_file(given):
    options.check_types(Derived, {"steps": 3, "rate": 1, "names": ["a"], "kind": "b"})
    with pytest.raises(ValueError, match=f"the option {next(iter(given))} is"):
        options.check_types(Derived, given)


def test_few_names_are_suggested():
    keys = ["gnn.act", "srnc.rounds", "mmd.rounds", "srnc.cut", "sageconv"]
    told = [did_you_mean(name, keys, "none") for name in ("round", "GraphSAGE", "deb")]
    assert told == ["Did you mean srnc.rounds?", "Did you mean sageconv?", "none"]


def test_errors_are_renamed_for_whom_calls():
    with pytest.raises(InputError) as error, renamed({"layer": "gnn.layer_type"}):
        raise InputError("layer", 3, "less")
    assert str(error.value) == "gnn.layer_type: got 3; allowed: less"
    assert error.value.__cause__ is None and error.value.__suppress_context__  # one traceback
    with pytest.raises(InputError) as error, renamed({"path": "file.path"}):
        raise InputError.plain("path", "g.pt does not exist", "Did you mean h.pt?")
    assert str(error.value) == "file.path: g.pt does not exist. Did you mean h.pt?"
    assert str(error.value.noted("config 1")).endswith("h.pt? (config 1)")
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) and again.key == "file.path"
    several = InputErrors([InputError("a", 1, "2"), InputError.plain("c", "no")])
    with pytest.raises(InputErrors, match=r"^b: got 1; allowed: 2; c: no\.$"), renamed({"a": "b"}):
        raise several
    assert str(several.noted("in g.pt")) == "a: got 1; allowed: 2 (in g.pt); c: no. (in g.pt)"
    with pytest.raises(KeyError), renamed({"layer": "gnn.layer_type"}):
        raise KeyError("layer")


def test_annotations_with_a_subclass_of_a_range_stay_their_own():
    class Even(Range):
        """A range whose numbers are equal to those of another one."""

    made = [Optional[Annotated[int, kind(1)]] for kind in (Range, Even)]
    assert [type(one.__args__[0].__metadata__[0]) for one in made] == [Range, Even]

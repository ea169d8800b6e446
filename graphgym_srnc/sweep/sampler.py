"""Who proposes the next point: a seeded draw, or Optuna's TPE where it is installed.

A proposal depends on seed, number and past trials alone. So a search that was stopped is gone
through again from its stored runs, and needs no book of its own.
"""

from __future__ import annotations

import math
import random
from importlib import metadata
from importlib.util import find_spec
from typing import Callable, Collection, Protocol, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.sweep.search import Point, Space


class Tried(Protocol):
    """A trial that is over: ``first`` is its score after the first seed, ``value`` after all."""

    point: Point
    first: float | None
    value: float | None


Sampler = Callable[[Space, Sequence[Tried], Collection[Point], str], Point]
"""A point that is not taken yet, from a space, past trials, the points that are taken, a seed."""


def find(name: str) -> tuple[str, Sampler]:
    """A sampler by name, ``tpe``, ``random`` or ``auto`` (TPE where there is Optuna), and what it
    is called in a record.

    Raises:
        InputError: Optuna is not installed.
    """
    installed = find_spec("optuna") is not None
    if name == "random" or name == "auto" and not installed:
        return "random", draw
    if not installed:
        raise InputError.plain(
            "--sampler",
            "the package optuna is not installed",
            "Use random, or install it with: pip install 'graphgym-srnc[tune]'",
        )
    return f"tpe, optuna {metadata.version('optuna')}", propose


def size(space: Space) -> int:
    """The number of points."""
    return math.prod(map(len, space.values()))


def draw(space: Space, past: Sequence[Tried], taken: Collection[Point], seed: str) -> Point:
    """Any point that is not taken, each as likely."""
    generator = random.Random(seed)
    while True:
        point = tuple(generator.choice(values) for values in space.values())
        if point not in taken:
            return point


def propose(space: Space, past: Sequence[Tried], taken: Collection[Point], seed: str) -> Point:
    """A point by the tree-structured Parzen estimator of Bergstra et al. (NeurIPS 2011), which
    knows the order of numbers; from one that is taken a random walk leads to one that is not."""
    import optuna
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ordered, ranges = {}, {}
    for key, values in space.items():
        numbers = not any(isinstance(value, (bool, str)) for value in values)
        ordered[key] = sorted(values) if numbers else list(values)
        ranges[key] = (
            IntDistribution(0, len(values) - 1)
            if numbers
            else CategoricalDistribution(range(len(values)))
        )

    generator = optuna.samplers.TPESampler(seed=random.Random(seed).getrandbits(32))
    study = optuna.create_study(direction="maximize", sampler=generator)
    for trial in past:
        if trial.first is not None:
            state = TrialState.PRUNED if trial.value is None else TrialState.COMPLETE
            params = {
                key: values.index(value)
                for (key, values), value in zip(ordered.items(), trial.point)
            }
            study.add_trial(
                create_trial(
                    state=state,
                    value=trial.value,
                    params=params,
                    distributions=ranges,
                    intermediate_values={0: trial.first},
                )
            )
    proposed = study.ask(ranges).params
    point = [values[proposed[key]] for key, values in ordered.items()]
    walk = random.Random(seed)
    while tuple(point) in taken:
        place = walk.randrange(len(point))
        point[place] = walk.choice(list(space.values())[place])
    return tuple(point)

"""A method in a study: where it starts from, what may be tried of it, and its trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Sequence

from graphgym_srnc import methods, shifts
from graphgym_srnc.core.errors import InputError, renamed
from graphgym_srnc.gym import build_task, config_names, load_config
from graphgym_srnc.gym.build import visible_task
from graphgym_srnc.gym.prepare import data_key, prepare
from graphgym_srnc.sweep import sampler
from graphgym_srnc.sweep.sampler import Sampler
from graphgym_srnc.sweep.search import Point, Space, space
from graphgym_srnc.train.selection import SELECTIONS

if TYPE_CHECKING:
    from yacs.config import CfgNode

Words = Sequence[str]
"""Settings as on the command line, keys and values, alternately."""


@dataclass
class Trial:
    """One point, and what became of it: ``state`` is done, pruned or failed once it is over."""

    number: int  # 0 = the config as it is
    point: Point
    state: str = ""
    first: float | None = None  # mean score over the blocks after the first seed
    value: float | None = None  # mean score over blocks and seeds, if it is done
    seconds: float = 0.0
    why: str = ""  # it failed
    runs: list[str] = field(default_factory=list)  # its experiments, one a block
    scores: list[float] = field(default_factory=list)  # of its runs


@dataclass
class Arm:
    """A method, the config that it starts from, settings of all its runs, its space, its trials."""

    name: str
    base: str | None
    words: Words
    space: Space = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    def config(self, block: Words = (), point: Point = ()) -> CfgNode:
        """The config of a block at a point; without a point as it is."""
        chosen = [str(word) for pair in zip(self.space, point) for word in pair]
        return load_config(self.base, [*self.words, *block, *chosen])

    def best(self) -> Trial | None:
        """The trial of the best validation score, the first of equal ones; None if all failed."""
        done = [trial for trial in self.trials if trial.value is not None]
        return max(done, key=lambda trial: trial.value, default=None)

    def propose(self, number: int, propose: Sampler, seed: int) -> list[Trial]:
        """The next trials, so many at most; fewer where the space has no more points."""
        past = list(self.trials)
        for _ in range(min(number, sampler.size(self.space) - len(past))):
            taken = {trial.point for trial in self.trials}
            point = tuple(values[0] for values in self.space.values())
            if taken:
                point = propose(self.space, past, taken, f"{seed} {len(self.trials)}")
            self.trials.append(Trial(len(self.trials), point))
        return self.trials[len(past) :]

    def goes_on(self, trial: Trial) -> bool:
        """Whether a trial is in the better half after its first seed, or the config as it is."""
        return trial.number == 0 or trial.first >= median(
            other.first for other in self.trials if other.first is not None
        )


def make(base: str | None, names: Sequence[str], words: Words) -> list[Arm]:
    """The methods of a study, each with a config of its own where one lies beside the base.

    ``paper/open_set/cora-pgl`` is that of ``pgl`` beside ``paper/open_set/cora-erm``. Where there
    is none a method starts from the base config and its own defaults.

    Raises:
        InputError: a method is unknown, or the base config is not one of a method.
    """
    mode = load_config(base, words).train.mode
    known = methods.names()
    for name in names or [mode]:
        if name not in known:
            raise InputError("--methods" if names else "train.mode", name, ", ".join(known))
    arms = []
    for name in dict.fromkeys(names or [mode]):
        beside = base if name == mode else _beside(base, mode, name)
        arms.append(Arm(name, beside or base, [*words, "train.mode", name]))
    return arms


def _beside(base: str | None, mode: str, name: str) -> str | None:
    """The config of another method, whose name says just another method than the base's."""
    stem = (base or "").removesuffix(".yaml")
    suffix = (base or "")[len(stem) :]
    for sign in ("_", "-"):
        ours, other = mode.replace("_", sign), name.replace("_", sign)
        found = f"{stem.removesuffix(ours)}{other}"
        if stem.endswith(ours) and (found in config_names() or Path(f"{found}.yaml").is_file()):
            return found + suffix
    return None


@renamed({"selection": "--selection"})
def check(arms: Sequence[Arm], blocks: Sequence[Words], first: int) -> None:
    """Make the data of each block ready, and each method its space.

    Args:
        arms: the methods.
        blocks: settings of each block.
        first: a seed, whose task is made.

    Raises:
        InputError: a config, the data or what settings are chosen by is not as it must be, or a
            method would be tried on other data than the first one.
    """
    open_set = False
    for block in blocks:
        configs = [arm.config([*block, "seed", str(first)]) for arm in arms]
        prepare(configs[:1], forget=False)
        task = build_task(configs[0])
        open_set = open_set or task.open_set
        for arm, cfg in zip(arms, configs):
            if data_key(cfg) != data_key(configs[0]):
                message = (
                    f"{arm.name} uses {cfg.dataset.format}/{cfg.dataset.name}, which is not "
                    f"the data of {arms[0].name}"
                )
                raise InputError.plain("--methods", message, "Compare methods on the same data")
            with renamed({"train.mode": "--methods"}):
                seen = visible_task(methods.find(arm.name), task)
            if cfg.train.selection == "last":
                raise InputError.plain(
                    "--selection",
                    "the rule 'last' computes no score to choose settings by",
                    "Use another rule",
                )
            SELECTIONS[cfg.train.selection](seen, cfg.train.min_agreement)
    shifts.forget()
    for arm in arms:
        keys = {word for words in (arm.words, *blocks) for word in words[::2]}
        arm.space = space(arm.config(), open_set, keys)

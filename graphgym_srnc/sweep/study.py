"""A study: every method gets as many trials, each a point of its space, scored on validation.

Test scores are never read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Iterator, Protocol, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.gym import run
from graphgym_srnc.sweep import execute, plan, sampler
from graphgym_srnc.sweep.arm import Arm, Trial, Words
from graphgym_srnc.sweep.jobs import Executor
from graphgym_srnc.sweep.sampler import Sampler
from graphgym_srnc.sweep.space import Point as GridPoint

if TYPE_CHECKING:
    from yacs.config import CfgNode

TOGETHER = 4
"""Trials of a method that are proposed at once, so that runs can go side by side. The number of
processes has no say, since no choice may depend on it."""

RUNS = "trials"
"""The folder of all runs of a study, in its own."""

Turn = Sequence[tuple[Arm, Trial]]


class Progress(execute.Progress, Protocol):
    """Shows how far a study is."""

    def skip(self, number: int) -> None:
        """So many runs are not to be made."""


@dataclass
class Study:
    """What all methods of a study have in common.

    Args:
        folder: of the study; its runs lie in ``RUNS`` there.
        arms: the methods.
        blocks: settings over whose tasks scores are averaged.
        seeds: of each trial.
        trials: of each method.
        sampler: who proposes points.
        search_seed: seeds its proposals.
        prune: whether the first seed decides if a trial goes on.
        overwrite: whether finished runs are made again.
    """

    folder: Path
    arms: Sequence[Arm]
    blocks: Sequence[Words]
    seeds: range
    trials: int
    sampler: Sampler
    search_seed: int = 0
    prune: bool = True
    overwrite: bool = False

    @property
    def most_runs(self) -> int:
        """How many runs there are if none is left out."""
        sizes = (min(self.trials, sampler.size(arm.space)) for arm in self.arms)
        return sum(sizes) * len(self.blocks) * len(self.seeds)

    def run(self, executor: Executor, progress: Progress) -> None:
        """Make all trials, or read those that are stored; a run that fails costs its trial.

        Raises:
            InputError: a run cannot be written, or its place holds what must not be replaced.
        """
        prune = self.prune and len(self.seeds) > 1
        for begin in range(0, self.trials, TOGETHER):
            most = min(TOGETHER, self.trials - begin)
            turn = [
                (arm, trial)
                for arm in self.arms
                for trial in arm.propose(most, self.sampler, self.search_seed)
            ]
            left = self._score(turn, self.seeds[:1] if prune else self.seeds, executor, progress)
            for _, trial in left:
                trial.first = mean(trial.scores)

            if prune:
                for trial in [trial for arm, trial in left if not arm.goes_on(trial)]:
                    trial.state = "pruned"
                left = [(arm, trial) for arm, trial in left if not trial.state]
                rest = self.seeds[1:]
                progress.skip((len(turn) - len(left)) * len(self.blocks) * len(rest))
                left = self._score(left, rest, executor, progress)
            for _, trial in left:
                trial.state, trial.value = "done", mean(trial.scores)

    def _score(self, turn: Turn, seeds: range, executor: Executor, progress: Progress) -> Turn:
        """Run trials with some seeds, and note the scores of their runs; returns those that have
        not failed."""
        planned = list(self._planned(turn, seeds, progress))
        cells = [cell for _, cell in planned]
        jobs = plan.jobs(cells, {"tensorboard": False}, overwrite=self.overwrite)
        progress.skip(len(turn) * len(self.blocks) * len(seeds) - len(jobs))
        failures = {
            (outcome.job.name, outcome.job.seed): outcome.message.strip().splitlines()[-1]
            for outcome in execute.execute(jobs, cells, executor, progress)
        }

        for trial, cell in planned:
            for seed in seeds:
                name = cell.experiment.name
                # What --overwrite could not replace does not count.
                failure = failures.get((name, seed))
                result = None if failure else cell.experiment.result(seed)
                if result is None or result.get("score") is None:
                    reason = failure or "it has no score on validation"
                    trial.state, trial.why = "failed", f"{name}/{seed}: {reason}"
                else:
                    trial.scores.append(result["score"])
                    trial.seconds += result["seconds"]
        return [(arm, trial) for arm, trial in turn if not trial.state]

    def _planned(
        self, turn: Turn, seeds: range, progress: Progress
    ) -> Iterator[tuple[Trial, plan.Cell]]:
        """The cells of trials, one a block; values that do not go together cost a trial."""
        for arm, trial in turn:
            try:
                configs = [arm.config(block, trial.point) for block in self.blocks]
            except InputError as error:
                trial.state, trial.why = "failed", str(error)
                progress.say(f"{arm.name}, trial {trial.number}: FAILED: {error}")
                continue
            cells = [self._cell(arm, trial, cfg, seeds) for cfg in configs]
            trial.runs = [cell.experiment.name for cell in cells]
            for cell in cells:
                for text in cell.experiment.warnings:
                    progress.say(f"warning: {text}")
                yield trial, cell

    def _cell(self, arm: Arm, trial: Trial, cfg: CfgNode, seeds: range) -> plan.Cell:
        cfg.out_dir = str(self.folder / RUNS)
        # Named by what it is, so that a longer study, or one with other methods, finds it again.
        name = f"{arm.name}-{run.experiment(cfg, arm.name).digest[:16]}"
        experiment = run.experiment(cfg, name)
        missing = experiment.plan(seeds, resume=True, overwrite=self.overwrite)
        setting = tuple(GridPoint(key, key, value) for key, value in zip(arm.space, trial.point))
        return plan.Cell(cfg, experiment, seeds, missing, setting)

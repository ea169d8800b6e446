"""A study: every method gets the same number of trials, and validation scores alone choose.

Optuna proposes the settings, prunes trials and keeps them in its journal. Test scores are never
read.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, Iterator, Sequence

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.gym import run
from graphgym_srnc.io.atomic import refuse_links
from graphgym_srnc.sweep import plan
from graphgym_srnc.sweep.execute import execute
from graphgym_srnc.sweep.jobs import Executor
from graphgym_srnc.sweep.search import Arm, Words
from graphgym_srnc.sweep.space import Point

TOGETHER = 4
"""Trials of a method that are proposed at once and run side by side. The number of processes has no
influence, since no choice may depend on it."""

SAMPLERS = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}

RUNS, JOURNAL = "trials", "tuned.log"
"""Folder of all runs of a study, and Optuna's journal of its trials, in the folder of the study."""


@dataclass
class _Candidate:
    """A trial that is not over."""

    arm: Arm
    trial: Any  # of Optuna
    runs: list[str] = field(default_factory=list)  # its experiments, one for each block
    scores: list[float] = field(default_factory=list)
    seconds: float = 0.0
    why: str = ""  # it failed
    pruned: bool = False


@dataclass
class Study:
    """Methods that are tuned under the same conditions."""

    folder: Path
    arms: Sequence[Arm]
    blocks: Sequence[Words]  # settings of the tasks over which scores are averaged
    seeds: range  # of each trial
    trials: int  # of each method
    sampler: str = "tpe"  # or "random"
    search_seed: int = 0
    prune: bool = True  # stop trials below the median after their first seed
    overwrite: bool = False  # run finished trials again

    def __post_init__(self) -> None:
        self._books: dict[str, optuna.Study] = {}
        # A pruned trial ends after these.
        self._first = self.seeds[:1] if self.prune else self.seeds
        self._runs_of_a_trial = len(self.blocks) * len(self.seeds)

    @property
    def most_runs(self) -> int:
        """Number of runs if no trial is pruned."""
        return sum(min(self.trials, arm.size) for arm in self.arms) * self._runs_of_a_trial

    def results(self, arm: Arm) -> list[FrozenTrial]:
        """Different trials of a method, in the order of their proposal."""
        # Optuna's failed trials are repeated proposals and what an earlier command did not finish.
        states = TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED
        return self._books[arm.name].get_trials(deepcopy=False, states=states)

    def run(self, executor: Executor, progress: GridProgress) -> None:
        """Run the trials that are missing. A run that fails costs its trial.

        Raises:
            InputError: Another process runs the study, its journal is damaged, or a run cannot be
                written.
        """
        refuse_links("out_dir", self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / "tuned.lock", blocking=False):
                self._open()
                done = sum(len(self.results(arm)) for arm in self.arms)
                progress.skip(done * self._runs_of_a_trial)
                for end in range(TOGETHER, self.trials + TOGETHER, TOGETHER):
                    most = min(end, self.trials)
                    batch = [one for arm in self.arms for one in self._ask(arm, most)]
                    self._run(batch, executor, progress)
        except Timeout as error:
            message = f"another process is running the study {self.folder}"
            raise InputError.plain("out_dir", message, "Choose another --name") from error

    def _open(self) -> None:
        """Open the journal. Trials that failed or were interrupted are proposed again."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        file = self.folder / JOURNAL
        with reading(file, "a journal of Optuna", "out_dir", "Remove it; finished runs are kept"):
            self._read(_journal(file))

    def _read(self, storage: JournalStorage) -> None:
        """Open the study of each method, and check its trials."""
        present = optuna.get_all_study_names(storage)
        for arm in self.arms:
            name = self._name(arm)
            if self.overwrite and name in present:
                optuna.delete_study(study_name=name, storage=storage)
            study = optuna.create_study(
                storage=storage,
                study_name=name,
                direction="maximize",
                # Trials of the first batch are never pruned, since none is complete.
                pruner=optuna.pruners.MedianPruner(n_startup_trials=1),
                load_if_exists=True,
            )
            if not study.trials:
                study.enqueue_trial(arm.defaults)
            for trial in study.get_trials(states=(TrialState.RUNNING,)):
                # Without all of its settings, the same draw proposes it again.
                whole = trial.params if len(trial.params) == len(arm.space) else None
                if setting := trial.system_attrs.get("fixed_params", whole):
                    study.enqueue_trial(setting)
                study.tell(trial.number, state=TrialState.FAIL)
            self._books[arm.name] = study
            for trial in self.results(arm):
                self._compare(arm, trial)

    def _compare(self, arm: Arm, trial: FrozenTrial) -> None:
        """Compare a finished trial of the journal with its stored runs, which have checksums."""
        found = outcome(trial)
        one = _Candidate(arm, trial)
        cells = self._cells(one, self.seeds)
        names = [cell.experiment.name for cell in cells]
        same = found["runs"] == names and set(found["setting"]) == set(arm.space)
        for value, seeds in ((found["first"], self._first), (found["value"], self.seeds)):
            if value is not None:
                results = [cell.experiment.result(seed) for cell in cells for seed in seeds]
                scores = [result["score"] for result in results if result]
                same = same and scores != [] and math.isclose(mean(scores), value)
        if not same:
            raise ValueError(f"trial {trial.number} of {arm.name} does not match its stored runs")

    def _name(self, arm: Arm) -> str:
        """Name of Optuna's study: another config, task, space or seed makes it another study."""
        configs = [run.experiment(arm.config(block), arm.name).digest for block in self.blocks]
        facts = (configs, [*self.seeds], self.sampler, self.search_seed, self.prune, arm.space)
        return f"{arm.name}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"

    def _ask(self, arm: Arm, most: int) -> Iterator[_Candidate]:
        """Propose settings until a method has ``most`` different trials.

        A proposal depends on the seed, its number and finished trials alone. A random walk leads
        from a setting that has been tried to one that has not.
        """
        study = self._books[arm.name]
        space: dict[str, BaseDistribution] = {
            key: CategoricalDistribution(values) for key, values in arm.space.items()
        }
        while len(tried := self.results(arm)) < min(most, arm.size):
            draw = random.Random(f"{self.search_seed} {len(tried)}")
            study.sampler = SAMPLERS[self.sampler](seed=draw.getrandbits(32))
            trial, taken = study.ask(space), [other.params for other in tried]
            if trial.params not in taken:
                yield _Candidate(arm, trial)
                continue
            study.tell(trial, state=TrialState.FAIL)
            if "fixed_params" in study.trials[trial.number].system_attrs:
                continue  # two kills let it be proposed again twice
            setting = dict(trial.params)
            while setting in taken:
                key = draw.choice(list(arm.space))
                setting[key] = draw.choice(arm.space[key])
            study.enqueue_trial(setting)

    def _run(self, batch: Sequence[_Candidate], executor: Executor, progress: GridProgress) -> None:
        """Run trials: all of them with the first seed, and what is not pruned with the others."""
        self._score(batch, self._first, executor, progress)
        going = [one for one in batch if not one.why]
        for one in going:
            one.trial.report(mean(one.scores), 0)
        rest = self.seeds[len(self._first) :]
        if rest:
            for one in going:
                one.pruned = one.trial.should_prune()
            going = [one for one in going if not one.pruned]
            progress.skip((len(batch) - len(going)) * len(self.blocks) * len(rest))
            self._score(going, rest, executor, progress)

        for one in batch:
            one.trial.set_user_attr("runs", one.runs)
            one.trial.set_user_attr("seconds", one.seconds)
            study = self._books[one.arm.name]
            if one.why:
                # It stays open, so that the same command tries it again.
                one.trial.set_user_attr("why", one.why)
            elif one.pruned:
                study.tell(one.trial, state=TrialState.PRUNED)
            else:
                study.tell(one.trial, mean(one.scores))

    def _score(
        self,
        batch: Sequence[_Candidate],
        seeds: range,
        executor: Executor,
        progress: GridProgress,
    ) -> None:
        """Run trials with some seeds, and note the validation scores of their runs."""
        planned = []
        for one in batch:
            try:
                cells = self._cells(one, seeds)
            except InputError as error:  # values that do not go together
                one.why = str(error)
                progress.say(f"{one.arm.name}: FAILED: {error}")
                continue
            one.runs = [cell.experiment.name for cell in cells]
            for cell in cells:
                planned.append((one, cell))
                for text in cell.experiment.warnings:
                    progress.say(f"warning: {text}")
        cells = [cell for _, cell in planned]
        missing = sum(len(cell.missing) for cell in cells)
        progress.skip(len(batch) * len(self.blocks) * len(seeds) - missing)
        failures = {
            (outcome.job.name, outcome.job.seed): outcome.message.strip().splitlines()[-1]
            for outcome in execute(cells, executor, progress, overwrite=self.overwrite)
        }
        for one, cell in planned:
            for seed in seeds:
                name = cell.experiment.name
                # What --overwrite could not replace does not count.
                failure = failures.get((name, seed))
                result = None if failure else cell.experiment.result(seed)
                if result is None or result.get("score") is None:
                    one.why = f"{name}/{seed}: {failure or 'it has no score on validation'}"
                else:
                    one.scores.append(result["score"])
                    one.seconds += result["seconds"]

    def _cells(self, one: _Candidate, seeds: range) -> list[plan.Cell]:
        """The runs of a trial, one cell for each block."""
        setting = tuple(Point(key, key, value) for key, value in one.trial.params.items())
        cells = []
        for block in self.blocks:
            cfg = one.arm.config(block, one.trial.params)
            # Named by its config, so that another study finds it again.
            name = f"{one.arm.name}-{run.experiment(cfg, one.arm.name).digest[:16]}"
            place = self.folder / RUNS, name, seeds, setting
            cells.append(plan.cell(cfg, *place, resume=True, overwrite=self.overwrite))
        return cells


class _Held(JournalFileOpenLock):
    """A lock of the journal that does nothing, since a study holds its whole folder."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return None


def _journal(file: Path) -> JournalStorage:
    """Open Optuna's journal without the line that a killed process may have left half-written."""
    file.touch()
    with open(file, "rb+") as stream:
        stream.truncate(stream.read().rfind(b"\n") + 1)
    return JournalStorage(JournalFileBackend(str(file), lock_obj=_Held(str(file))))


def outcome(trial: FrozenTrial) -> dict[str, Any]:
    """A finished trial as plain data."""
    state = {TrialState.COMPLETE: "done", TrialState.PRUNED: "pruned", TrialState.RUNNING: "failed"}
    return {
        "state": state[trial.state],
        "value": trial.value if trial.state == TrialState.COMPLETE else None,
        "first": trial.intermediate_values.get(0),
        "seconds": trial.user_attrs["seconds"],
        "why": trial.user_attrs.get("why", ""),
        "setting": trial.params,
        "runs": trial.user_attrs["runs"],
    }

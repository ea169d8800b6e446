"""A study: every method gets the same number of trials, and validation scores alone choose.

Optuna proposes the settings and prunes trials. A proposal follows from the scores of earlier trials
alone. A repeated command therefore proposes the same settings again and finds their runs finished.
Test scores are never read.
"""

from __future__ import annotations

import json
import random
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, Iterator, Sequence

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import TrialState

from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import run
from graphgym_srnc.io.atomic import refuse_links, write_text
from graphgym_srnc.sweep import runs
from graphgym_srnc.sweep.jobs import Executor
from graphgym_srnc.sweep.search import Arm, Words

# Trials of a method that are proposed at once. The number of processes has no influence, since no
# choice may depend on it.
TOGETHER = 4
RUNS = "trials"  # folder of all runs, in the folder of the study
JOURNAL = "tuned.log"  # Optuna's journal of the trials, in the folder of the study


@dataclass
class Trial:
    """A setting of a method, and how its runs ended."""

    arm: Arm
    asked: optuna.Trial  # what proposed the setting
    number: int
    state: str = "done"  # or pruned, failed
    value: float | None = None  # mean score on validation over blocks and seeds
    first: float | None = None  # the same of the first seed
    scores: list[float] = field(default_factory=list)  # of all runs, by seed
    seconds: float = 0.0
    why: str = ""  # it failed
    runs: list[str] = field(default_factory=list)  # its experiments, one for each block

    @property
    def setting(self) -> dict[str, Any]:
        """Values by config key."""
        return self.asked.params

    def record(self) -> dict[str, Any]:
        """All that a study keeps of it."""
        facts = {"number": self.number, "setting": self.setting, **vars(self)}
        return {key: value for key, value in facts.items() if key not in ("arm", "asked")}


@dataclass
class Study:
    """Methods that are tuned under the same conditions."""

    folder: Path
    arms: Sequence[Arm]
    blocks: Sequence[Words]  # settings of the tasks over which scores are averaged
    seeds: range  # of each trial
    trials: int  # of each method
    prune: bool = True  # stop trials below the median after their first seed
    overwrite: bool = False  # run finished trials again

    def __post_init__(self) -> None:
        self.results: dict[str, list[Trial]] = {arm.name: [] for arm in self.arms}
        self._books: dict[str, optuna.Study] = {}

    @property
    def most_runs(self) -> int:
        """Number of runs if no trial is pruned."""
        trials = sum(min(self.trials, arm.size) for arm in self.arms)
        return trials * len(self.blocks) * len(self.seeds)

    def run(self, executor: Executor, progress: GridProgress) -> None:
        """Run the trials that are missing. A run that fails costs its trial."""
        refuse_links(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        journal = _Journal()
        try:
            with FileLock(self.folder / "tuned.lock", blocking=False):
                for arm in self.arms:
                    self._books[arm.name] = optuna.create_study(
                        storage=optuna.storages.JournalStorage(journal),
                        study_name=arm.name,
                        direction="maximize",
                        # Trials of the first batch are never pruned, since none is complete.
                        pruner=optuna.pruners.MedianPruner(n_startup_trials=1),
                    )
                    self._books[arm.name].enqueue_trial(arm.defaults)
                for end in range(TOGETHER, self.trials + TOGETHER, TOGETHER):
                    most = min(end, self.trials)
                    batch = [one for arm in self.arms for one in self._ask(arm, most)]
                    self._run(batch, executor, progress)
                    lines = [json.dumps(log) + "\n" for log in journal.logs]
                    write_text(self.folder / JOURNAL, "".join(lines))
        except Timeout as error:
            raise InputError.plain(
                "out_dir", f"another process is running the study {self.folder}", code="foreign"
            ) from error

    def _ask(self, arm: Arm, most: int) -> Iterator[Trial]:
        """Propose settings until a method has ``most`` different trials.

        A setting that has been tried is replaced by a random one that has not.
        """
        study = self._books[arm.name]
        tried = self.results[arm.name]
        space: dict[str, BaseDistribution] = {
            key: CategoricalDistribution(values) for key, values in arm.space.items()
        }
        while len(tried) < min(most, arm.size):
            draw = random.Random(f"0 {len(tried)}")
            study.sampler = _proposer(draw.getrandbits(32))
            asked = study.ask(space)
            while asked.params in [trial.setting for trial in tried]:
                study.tell(asked, state=TrialState.FAIL)
                study.sampler = optuna.samplers.RandomSampler(seed=draw.getrandbits(32))
                asked = study.ask(space)
            tried.append(Trial(arm, asked, len(tried)))
            yield tried[-1]

    def _run(self, batch: Sequence[Trial], executor: Executor, progress: GridProgress) -> None:
        """Run trials: all of them with the first seed, and what is not pruned with the others."""
        first = self.seeds[:1] if self.prune else self.seeds
        rest = self.seeds[len(first) :]
        self._score(batch, first, executor, progress)
        going = [trial for trial in batch if not trial.why]
        for trial in going:
            trial.first = mean(trial.scores)
            trial.asked.report(trial.first, 0)
        if rest:
            for trial in going:
                if trial.asked.should_prune():
                    trial.state = "pruned"
            going = [trial for trial in going if trial.state == "done"]
            progress.skip((len(batch) - len(going)) * len(self.blocks) * len(rest))
            self._score(going, rest, executor, progress)
        for trial in batch:
            self._tell(trial)

    def _tell(self, trial: Trial) -> None:
        """Tell Optuna how a trial ended."""
        study = self._books[trial.arm.name]
        if trial.why:
            trial.state = "failed"
            study.tell(trial.asked, state=TrialState.FAIL)
        elif trial.state == "pruned":
            study.tell(trial.asked, state=TrialState.PRUNED)
        else:
            trial.value = mean(trial.scores)
            study.tell(trial.asked, trial.value)

    def _score(
        self, batch: Sequence[Trial], seeds: range, executor: Executor, progress: GridProgress
    ) -> None:
        """Run trials with some seeds, and note the validation scores of their runs."""
        planned = []
        for trial in batch:
            try:
                cells = self._cells(trial, seeds)
            except InputError as error:  # values that do not go together
                trial.why = str(error)
                progress.say(f"{trial.arm.name}: FAILED: {error}")
                continue
            trial.runs = [cell.experiment.name for cell in cells]
            planned += [(trial, cell) for cell in cells]
        cells = [cell for _, cell in planned]
        for cell in cells:
            for text in cell.experiment.warnings:
                progress.say(f"warning: {text}")
        missing = sum(len(cell.missing) for cell in cells)
        progress.skip(len(batch) * len(self.blocks) * len(seeds) - missing)
        failures = {
            (outcome.job.name, outcome.job.seed): outcome.message.strip().splitlines()[-1]
            for outcome in runs.execute(cells, executor, progress, overwrite=self.overwrite)
        }
        for trial, cell in planned:
            for seed in seeds:
                name = cell.experiment.name
                # What --overwrite could not replace does not count.
                failure = failures.get((name, seed))
                result = None if failure else cell.experiment.result(seed)
                if result is None or result.get("score") is None:
                    why = failure or "it has no score on validation"
                    trial.why = f"{name}/{seed}: {why}"
                else:
                    trial.scores.append(result["score"])
                    trial.seconds += result["seconds"]

    def _cells(self, trial: Trial, seeds: range) -> list[runs.Cell]:
        """The runs of a trial, one cell for each block."""
        cells = []
        for block in self.blocks:
            cfg = trial.arm.config(block, trial.setting)
            # Named by its config, so that another study finds it again.
            name = f"{trial.arm.name}-{run.experiment(cfg, trial.arm.name).digest[:16]}"
            folder = self.folder / RUNS
            cells.append(runs.cell(cfg, folder, name, seeds, True, self.overwrite))
        return cells


def _proposer(seed: int) -> optuna.samplers.TPESampler:
    """The sampler of proposals, with Optuna 5's defaults, which differ from those of Optuna 4."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of Optuna 4
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)


class _Journal(BaseJournalBackend):
    """Optuna's journal in memory."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        return self.logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self.logs += logs

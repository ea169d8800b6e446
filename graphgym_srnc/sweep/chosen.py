"""What a study writes: a table, a config of each method, a grid file of them, and its record.

<folder>/tuned/<method>.yaml   the chosen setting, for ``run --cfg``
<folder>/tuned.txt             all of them on all blocks, for ``grid --grid``
<folder>/tuned.json            every trial, how it was chosen, versions; written last
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Sequence

import optuna
import yaml

from graphgym_srnc.core import environment
from graphgym_srnc.core.text import counted
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import load_config
from graphgym_srnc.io import checksums
from graphgym_srnc.io.atomic import content, discard, refuse_links, write_text
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.io.stats import mean_std
from graphgym_srnc.sweep.search import Arm, Words
from graphgym_srnc.sweep.study import Study, Trial

RECORD = "tuned.json"
GRID = "tuned.txt"
CONFIGS = "tuned"
STATES = ("done", "pruned", "failed")
PLACES = ("out_dir", "run_dir", "train.save_model")  # keys that a study sets but does not choose


def facts(study: Study) -> dict[str, Any]:
    """What must be equal for a study to be continued."""
    methods = {arm.name: {"config": arm.base, "settings": [*arm.words]} for arm in study.arms}
    return {
        "methods": methods,
        "blocks": [list(block) for block in study.blocks],
        "seeds": [study.seeds[0], study.seeds[-1]],
        "prune": study.prune,
    }


def check_place(study: Study) -> None:
    """Refuse to replace the outcome of another study without ``overwrite``."""
    refuse_links(study.folder)
    file = study.folder / RECORD
    if study.overwrite or not file.exists():
        return
    try:
        same = json.loads(content(file))["study"] == facts(study)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        same = False
    if not same:
        raise InputError.plain(
            "out_dir", f"{study.folder} contains the {RECORD} of another study", code="other_study"
        )


def write(study: Study) -> tuple[list[list[str]], list[str], Path | None]:
    """Write what a finished study chose.

    Returns the rows of a table, its head first, with mean validation scores in %; sentences about
    the choices; and the grid file, None if every trial failed.
    """
    refuse_links(study.folder, CONFIGS)
    discard(study.folder / checksums.FILE)
    rows = [["method", "trials", *STATES, "seconds", "default", "best"]]
    sentences = []
    methods = {}
    names = []
    for arm in study.arms:
        trials = study.results[arm.name]
        scored = [trial for trial in trials if trial.value is not None]
        best = max(scored, key=lambda trial: trial.value or 0.0, default=None)
        methods[arm.name] = {
            "chosen": best and best.setting,
            "validation": best and best.value,
            "default": trials[0].value,
            "space": arm.space,
            "trials": [trial.record() for trial in trials],
        }
        rows.append(_row(arm, trials, best))
        sentences += _sentences(arm, trials, best)
        name = f"{CONFIGS}/{arm.name}.yaml"
        if best is None:  # what an earlier study chose is no result of this one
            discard(study.folder / name)
        else:
            head = f"# {arm.name}, trial {best.number} of {len(trials)}, chosen on validation.\n"
            write_text(study.folder / name, head + _config_text(arm, best.setting))
            names.append(name)

    grid = study.folder / GRID
    if names:
        configs = [str((study.folder / name).absolute()) for name in names]
        write_text(grid, _grid_text(configs, study.blocks))
        names.append(GRID)
    else:
        discard(grid)
    record = {
        "study": facts(study),
        "trials": study.trials,
        "sampler": f"tpe, optuna {optuna.__version__}",
        "methods": methods,
        **environment.facts(),
    }
    write_text(study.folder / RECORD, json.dumps(record, indent=1, allow_nan=False) + "\n")
    checksums.write(study.folder, [RECORD, *names])
    return rows, sentences, grid if names else None


def _row(arm: Arm, trials: Sequence[Trial], best: Trial | None) -> list[str]:
    """The cells of a method: numbers of trials, seconds, and two scores."""
    states = [trial.state for trial in trials]
    counts = [len(trials), *map(states.count, STATES)]
    seconds = sum(trial.seconds for trial in trials)
    scores = [trials[0].value, best.value if best else None]
    shown = ["-" if score is None else f"{100 * score:.2f}" for score in scores]
    return [arm.name, *map(str, counts), f"{seconds:.1f}", *shown]


def _sentences(arm: Arm, trials: Sequence[Trial], best: Trial | None) -> list[str]:
    """What was chosen for a method, and how many trials failed."""
    if best is None:
        out = [f"{arm.name}: every trial failed"]
    else:
        changed = [
            f"{key} {value}" for key, value in best.setting.items() if value != arm.defaults[key]
        ]
        words = ", ".join(changed) or "the unchanged config"
        out = [f"{arm.name}: {words} (trial {best.number}){_evidence(trials, best)}"]
    failed = [trial for trial in trials if trial.state == "failed"]
    if failed:
        first = f"the first is trial {failed[0].number}: {failed[0].why}"
        out.append(f"{arm.name}: {len(failed)} trials failed; {first}")
    return out


def _evidence(trials: Sequence[Trial], best: Trial) -> str:
    """How much better than the unchanged config the best trial is, on the runs of both."""
    gaps = [100 * (new - old) for new, old in zip(best.scores, trials[0].scores)]
    if best is trials[0] or not gaps:
        return ""
    gap, spread = mean_std(gaps)
    on = f"points (mean ± population std) from the default on {counted(len(gaps), 'common run')}"
    more = f"; {gap:+.2f} ± {spread:.2f} {on}"
    count = f"{len(trials)} trials"
    return f"{more}. The best of {count} looks better than it is: run it on other seeds"


def _config_text(arm: Arm, setting: dict[str, Any]) -> str:
    """A config as YAML, reduced to what it changes in the defaults."""
    defaults = flatten(load_config())
    cfg = flatten(arm.config(setting=setting))
    tree: dict[str, Any] = {}
    for key, value in cfg.items():
        if value != defaults.get(key) and key not in PLACES:
            *blocks, last = key.split(".")
            node = tree
            for block in blocks:
                node = node.setdefault(block, {})
            node[last] = value
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def _grid_text(configs: Sequence[str], blocks: Sequence[Words]) -> str:
    """A grid file of all configs on each block."""

    def quoted(value: str) -> str:
        return value if value.startswith("[") else "'" + value.replace("'", "''") + "'"

    spaces = []
    for block in blocks:
        axes = dict(zip(block[::2], block[1::2]))
        lines = [f"cfg  cfg  [{','.join(map(quoted, configs))}]\n"]
        lines += [f"{key}  {key.replace('.', '_')}  [{quoted(axes[key])}]\n" for key in axes]
        spaces.append("".join(lines))
    return "# Settings chosen on validation; see tuned.json.\n" + "\n".join(spaces)

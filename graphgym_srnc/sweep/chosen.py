"""What a study leaves: a table, a config of each method, a grid file of them, and their record.

<folder>/tuned/<method>.yaml   the chosen setting, for ``run --cfg``
<folder>/tuned.txt             all of them on all blocks, for ``grid --grid``
<folder>/tuned.json            every trial, how it was chosen, versions; written last
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, Sequence

import yaml

from graphgym_srnc.core import environment
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.gym import load_config
from graphgym_srnc.io import checksums
from graphgym_srnc.io.atomic import discard, refuse_links, regular, write_text
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.sweep.arm import Arm, Words
from graphgym_srnc.sweep.study import Study

RECORD, GRID, CONFIGS = "tuned.json", "tuned.txt", "tuned"
STATES = ("done", "pruned", "failed")
PLACES = ("out_dir", "run_dir", "train.save_model")
"""Keys that a study sets, and that are no part of what it chooses."""

Chosen = dict[str, tuple[Any, Any]]


def changes(arm: Arm) -> Chosen:
    """Value as it was and chosen value of each key in which the best trial is not the default."""
    best = arm.best()
    pairs = zip(arm.space.items(), best.point) if best else ()
    return {key: (values[0], value) for (key, values), value in pairs if value != values[0]}


def table(arms: Sequence[Arm]) -> list[list[str]]:
    """Lines of cells, the head first: trials, seconds, and the mean validation score in %."""
    lines = [["method", "trials", *STATES, "seconds", "default", "best"]]
    for arm in arms:
        states = [trial.state for trial in arm.trials]
        best = arm.best()
        scores = (arm.trials[0].value, best and best.value)
        lines.append(
            [
                arm.name,
                str(len(states)),
                *(str(states.count(state)) for state in STATES),
                f"{sum(trial.seconds for trial in arm.trials):.1f}",
                *("-" if score is None else f"{100 * score:.2f}" for score in scores),
            ]
        )
    return lines


def sentences(arms: Sequence[Arm]) -> list[str]:
    """What was chosen of each method, and what its trials failed of."""
    lines = []
    for arm in arms:
        best, words = arm.best(), [f"{key} {new}" for key, (_, new) in changes(arm).items()]
        if best is None:
            lines.append(f"{arm.name}: every trial failed")
        else:
            lines.append(
                f"{arm.name}: {', '.join(words) or 'the unchanged config'}"
                + f" (trial {best.number})" * bool(words)
            )
        failed = [trial for trial in arm.trials if trial.state == "failed"]
        if failed:
            lines.append(
                f"{arm.name}: {len(failed)} trials failed; the first is trial "
                f"{failed[0].number}: {failed[0].why}"
            )
    return lines


def facts(study: Study) -> dict[str, Any]:
    """What makes two studies one: more trials continue it."""
    return {
        "methods": {
            arm.name: {"config": arm.base, "settings": list(arm.words)} for arm in study.arms
        },
        "blocks": [list(block) for block in study.blocks],
        "seeds": [study.seeds[0], study.seeds[-1]],
        "search_seed": study.search_seed,
        "prune": study.prune,
    }


def check_place(study: Study) -> None:
    """Refuse to replace the outcome of another study, unless ``overwrite`` is asked for.

    Raises:
        InputError: it would be lost, or a link leads out of the folder.
    """
    refuse_links("out_dir", study.folder)
    file = study.folder / RECORD
    if study.overwrite or not file.exists():
        return
    try:
        same = json.loads(regular(file).read_text(encoding="utf-8"))["study"] == facts(study)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        same = False
    if not same:
        raise InputError.plain(
            "out_dir",
            f"{study.folder} contains the {RECORD} of another study",
            "Choose another --name, or add --overwrite to replace it",
        )


def write(study: Study, sampler: str) -> Path | None:
    """Write all that the study chose; returns the grid file, None if every trial failed.

    Args:
        study: a study that is over.
        sampler: who proposed its points, in words.
    """
    refuse_links("out_dir", study.folder, CONFIGS)
    discard(study.folder / checksums.FILE)
    found = [arm for arm in study.arms if arm.best()]
    files = {arm.name: (study.folder / CONFIGS / f"{arm.name}.yaml").absolute() for arm in found}
    for arm in found:
        write_text(files[arm.name], config_text(arm))
    grid = study.folder / GRID
    if found:
        write_text(grid, grid_text(list(map(str, files.values())), study.blocks))
    record = {
        "study": facts(study),
        "trials": study.trials,
        "sampler": sampler,
        "methods": {arm.name: _record(arm) for arm in study.arms},
        **environment.facts(),
    }
    write_text(study.folder / RECORD, json.dumps(record, indent=1, allow_nan=False) + "\n")
    names = [GRID, *(f"{CONFIGS}/{name}.yaml" for name in files)] if found else []
    checksums.write(study.folder, [RECORD, *names])
    return grid if found else None


def _record(arm: Arm) -> dict[str, Any]:
    best = arm.best()
    trials = [
        {
            "number": trial.number,
            "state": trial.state,
            "value": trial.value,
            "first": trial.first,
            "seconds": trial.seconds,
            "why": trial.why,
            "setting": dict(zip(arm.space, trial.point)),
            "runs": trial.runs,
        }
        for trial in arm.trials
    ]
    return {
        "chosen": dict(zip(arm.space, best.point)) if best else None,
        "changed": {key: list(pair) for key, pair in changes(arm).items()},
        "validation": best.value if best else None,
        "default": arm.trials[0].value,
        "space": {key: list(values) for key, values in arm.space.items()},
        "trials": trials,
    }


def config_text(arm: Arm) -> str:
    """The chosen config as a yaml file, which says what it changes in the defaults of all."""
    defaults, cfg = flatten(load_config()), flatten(arm.config(point=arm.best().point))
    tree: dict[str, Any] = {}
    for key, value in cfg.items():
        if value != defaults.get(key) and key not in PLACES:
            *blocks, last = key.split(".")
            node = tree
            for block in blocks:
                node = node.setdefault(block, {})
            node[last] = value
    best = arm.best()
    head = f"# {arm.name}, trial {best.number} of {len(arm.trials)}, chosen on validation.\n"
    return head + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def grid_text(configs: Sequence[str], blocks: Sequence[Words]) -> str:
    """A grid file of all configs on each block."""
    spaces = []
    for block in blocks:
        axes: Mapping[str, str] = dict(zip(block[::2], block[1::2]))
        lines = [f"cfg  cfg  [{','.join(map(_quoted, configs))}]"]
        lines += [
            f"{key}  {key.replace('.', '_')}  [{_quoted(value)}]" for key, value in axes.items()
        ]
        spaces.append("\n".join(lines) + "\n")
    return "# Settings chosen on validation; see tuned.json.\n" + "\n".join(spaces)


def _quoted(value: str) -> str:
    """A value in a list of yaml; one that is a list stays one."""
    return value if value.startswith("[") else "'" + value.replace("'", "''") + "'"

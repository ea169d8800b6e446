"""What CONTRIBUTING.md asks of a new method and of a new loss is there."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path

import pytest
import yaml

from graphgym_srnc import methods

ROOT = Path(__file__).parents[1]
TESTS = [
    path.read_text(encoding="utf-8")
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if path != Path(__file__)
]
LOSSES = {
    f"{path.stem}.{part.name}"
    for path in (ROOT / "graphgym_srnc/losses").glob("*.py")
    for part in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")
}


@cache
def kinds_of_shift() -> list[str]:
    """The methods of the site's table."""
    found = runpy.run_path(str(ROOT / "docs/site.py"))["SHIFTS"]
    return " ".join(found.values()).split()


def missing_of_method(name: str) -> list[str]:
    """Steps of the list in CONTRIBUTING.md that are not done for a method."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    of_first_release = int(re.search(r"(\d+) baselines and the oracle `iid`", changes)[1])
    unnamed = [other for other in methods.own_names() if f"`{other}`" not in changes]
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    steps = {
        f"a tiny run of it: configs_gym/testing/{name}.yaml": (
            ROOT / f"configs_gym/testing/{name}.yaml"
        ).is_file(),
        "its kind of shift: SHIFTS of docs/site.py": name in kinds_of_shift(),
        "a row: docs/reference/api.md": f"| `{methods.find(name).__name__}`" in page,
        f"a line with `{name}`: CHANGELOG.md": (
            name not in unnamed or len(unnamed) <= of_first_release
        ),
    }
    return [step for step, is_done in steps.items() if not is_done]


def is_compared(loss: str) -> bool:
    """Whether a file of tests imports a function of the losses, and names it again in a test."""
    module, name = loss.split(".")
    return any(
        re.search(rf"\b{module}\.{name}\b", text)
        or (
            f"graphgym_srnc.losses.{module} import" in text
            and len(re.findall(rf"\b{name}\b", text)) > 1
        )
        for text in TESTS
    )


@pytest.mark.parametrize("name", methods.own_names())
def test_every_step_is_done_for_a_method(name):
    assert not missing_of_method(name)


def test_each_loss_is_compared_with_another_computation():
    assert LOSSES and not is_compared("alignment.no_loss")
    assert not [loss for loss in sorted(LOSSES) if not is_compared(loss)], (
        "compare each with numpy, scipy or a loop in tests/test_losses*.py"
    )


def test_mutants_name_code_that_exists():
    mutants = yaml.safe_load((ROOT / "benchmarks/mutants.yaml").read_text())
    stale = [
        one["file"]
        for package in mutants.values()
        for one in package
        if (ROOT / "graphgym_srnc" / one["file"]).read_text().count(one["old"]) != 1
    ]
    assert not stale, f"rewrite the mutants of {stale}"
    assert {len(package) for package in mutants.values()} == {10}

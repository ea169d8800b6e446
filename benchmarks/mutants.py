"""Plant errors in the package, one at a time, and see whether the tests find them.

    python benchmarks/mutants.py                  # all packages
    python benchmarks/mutants.py losses methods   # some of them

``mutants.yaml`` lists the errors: a text of a file, what replaces it, and the tests that have to
fail: files without ``test_`` and ``.py``, or ``FILE::TEST``, which may be slow. The errors are
planted in a copy of this repository. A mutant is dead if a test fails, alive if all pass, and stale
if its text does not occur once in the file, so that it has to be rewritten. The exit status is 1 if
a mutant is alive or stale.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
PACKAGE = "graphgym_srnc"
FAILED = 1  # exit status of pytest
SLOW_IMPORTS = ["pytest", "torch", "torch_geometric.graphgym", "sklearn.manifold", "pandas"]
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(SLOW_IMPORTS)


def run_tests(copy: Path, words: list[str]) -> None:
    """Run tests in a copy of the repository, and end this process with pytest's exit status."""
    import pytest

    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    sys.stdout = open(os.devnull, "w")
    sys.exit(pytest.main(["-qx", "-p", "no:cacheprovider", *words]))


def fate(copy: Path, mutant: dict[str, str]) -> str:
    """Whether tests in a copy of the repository find a mutant: dead, alive or stale."""
    file = copy / PACKAGE / mutant["file"]
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if text.count(mutant["old"]) != 1:
        return "stale"
    words = []
    for name in mutant["tests"].split():
        file_name, mark, function = name.partition("::")
        words.append(f"tests/test_{file_name}.py{mark}{function}")
    if "::" in mutant["tests"]:
        words += ["-m", "slow or not slow"]
    file.write_text(text.replace(mutant["old"], mutant["new"]), encoding="utf-8")
    process = PROCESSES.Process(target=run_tests, args=(copy, words))
    process.start()
    process.join()
    file.write_text(text, encoding="utf-8")
    if process.exitcode not in (0, FAILED):
        raise RuntimeError(f"pytest {' '.join(words)} ended with {process.exitcode}")
    return "alive" if process.exitcode == 0 else "dead"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(known)}")
    chosen = parser.parse_args().packages or list(known)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        print("| package | dead | of |\n|---|---|---|")
        for package in chosen:
            fates = [fate(copy, mutant) for mutant in known[package]]
            print(f"| {package} | {fates.count('dead')} | {len(fates)} |", flush=True)
            for mutant, found in zip(known[package], fates):
                if found != "dead":
                    print(f"{found}: {mutant['file']}: {mutant['old']}", file=sys.stderr)
            total.update(fates)
    return int(total["dead"] < total.total())


if __name__ == "__main__":
    sys.exit(main())

"""Libraries of numpy, scipy, scikit-learn and torch use as many threads as ``num_threads`` says."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import ended, environment

from graphgym_srnc.core.environment import VARIABLES, cores

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(cores() < 2, reason="one thread a core is one thread here"),
]

SEEN = """
import contextlib, json, sys
from graphgym_srnc.core import environment

limited, seen = environment.limited, []

def threads():
    from threadpoolctl import threadpool_info
    import torch
    found = {library["filepath"]: library["num_threads"] for library in threadpool_info()}
    return {**found, "torch": torch.get_num_threads()}

@contextlib.contextmanager
def noted(number):
    with limited(number):
        yield
        seen.append(threads())  # of all libraries that were loaded meanwhile

environment.limited = noted
"""

COMMANDS = """
from graphgym_srnc.cli.main import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["graphgym-srnc", *words]
    assert main() == 0, words
print(json.dumps(seen))
"""

ESTIMATOR = """
from graphgym_srnc import ERM, discover, shifts
import sklearn.cluster, scipy.linalg

before = threads()
task = shifts.find("synthetic")(num_nodes=300)
model = ERM(steps=2, hidden=8, callbacks=[lambda *_: seen.append(threads())]).fit(task)
model.predict(task.target)
discover(model, task)
print(json.dumps([before == threads(), *seen]))
"""


def printed(code: str, *words: str, cwd: str) -> list:
    """What a process prints on its last line that has none of the variables of threads."""
    free = {name: value for name, value in environment().items() if name not in VARIABLES}
    done = ended([sys.executable, "-W", "ignore", "-c", SEEN + code, *words], env=free, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


RUN = (
    "run --name one --out-dir . --figures train.mode srnc train.max_episodes 1 gnn.dim_inner 8"
    " srnc.pretrain_steps 2 srnc.cluster_steps 2 srnc.steps 2 synthetic.num_nodes 300 num_threads"
).split()


def test_commands(tmp_path):
    others = ["predict one --out p.csv".split(), "discover one --out d.html".split()]
    commands = [[*RUN, "1"], *others, [*RUN, "2", "--overwrite"]]
    seen = printed(COMMANDS, json.dumps(commands), cwd=tmp_path)
    assert len(seen[-1]) > 2  # torch, OpenMP, and BLAS of numpy
    # A run reads its data, and then trains.
    assert [set(each.values()) for each in seen] == [{1}, {1}, {1}, {1}, {2}, {2}]


def test_estimators(tmp_path):
    restored, *seen = printed(ESTIMATOR, cwd=tmp_path)
    assert restored and len(seen) > 4  # episodes, fit, predict and discover
    assert all(set(each.values()) == {1} for each in seen)

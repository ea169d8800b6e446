"""The model of a run predicts the bits of the trained method, on its own graph and on others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from pickle import dumps

import numpy as np
import pytest
import torch
from conftest import make_graph
from torch_geometric.data import Data
from written import Trap

import graphgym_srnc
from graphgym_srnc import methods
from graphgym_srnc.backbones import prepare
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build
from graphgym_srnc.gym import run as runs
from graphgym_srnc.io import records
from graphgym_srnc.train import model as models
from graphgym_srnc.train.metrics import scores_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("hardly_pretrained"),
]

SMALL = """synthetic.num_nodes 200 synthetic.num_val 40 synthetic.num_test 80
synthetic.num_features 40 synthetic.num_classes 5 gnn.dim_inner 8 gnn.att_heads 2
train.max_episodes 1 srnc.pretrain_steps 10 srnc.steps 5""".split()


def trained(gym, tmp_path: Path, *words: str):
    """The method of a run, its task, and the model that the run left, read back."""
    cfg = gym.load_config(None, [*SMALL, "out_dir", str(tmp_path), *words])
    methods_of = []

    def fit(*args):
        methods_of.append(build.fit(*args))
        return methods_of[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "fit", fit)
        runs.run(cfg, cfg.seed, runs.experiment(cfg, "one"), extras=runs.Extras(False))
    before = torch.get_rng_state()
    loaded = build.load_model(tmp_path / "one" / str(cfg.seed))
    assert torch.equal(before, torch.get_rng_state())
    return methods_of[0][0], gym.build_task(cfg), loaded


def new_graph(task) -> Data:
    graph = make_graph(num_nodes=70, num_features=task.num_features, seed=5)
    return Data(x=graph.x, edge_index=graph.edge_index)


def check_bits(method, task, loaded) -> None:
    wide = (task.oracle if method.oracle else task).num_outputs
    for graph in (task.target, new_graph(task)):
        scores = method.eval().predict(graph)
        found = loaded.predict(graph)
        assert torch.equal(found.label, method.decide(scores))
        assert torch.equal(found.posterior, method.posterior(scores))
        assert torch.equal(found.confidence, method.confidence(scores))
        assert torch.equal(found.posterior.argmax(1), found.label)
        assert found.posterior.shape == (graph.num_nodes, wide)
        assert found.hidden.shape[0] == graph.num_nodes and torch.isfinite(found.hidden).all()
    assert len(loaded.class_names) == wide


CLOSE = "dann grade cmd mmd coral srgnn strurw a2gnn adalign udagcn pairalign".split()


@pytest.mark.parametrize(
    "words",
    [
        *(f"train.mode {mode} {mode}.steps 5" for mode in methods.names()[::5]),
        *(f"gnn.layer_type {kind}" for kind in ("dgi", "gatconv", "generalconv")),
        "train.mode erm erm.confidence openmax erm.smoothing 2",
    ],
)
def test_methods_and_backbones(gym, tmp_path, words):
    kind = ["synthetic.num_unseen", "0"] if words.split()[1] in CLOSE else []
    method, task, loaded = trained(gym, tmp_path, *words.split(), *kind)
    check_bits(method, task, loaded)
    graph = new_graph(task)
    found = loaded.predict(graph)
    if words == "gnn.layer_type gatconv":  # SRNC has clusters
        prepared = prepare(method.as_trained(graph, "target"), method.cluster_spec.features)
        assert torch.equal(found.cluster, method.clusters.log_posterior(prepared).argmax(1))
        assert found.hidden.shape[1] == method.clusters.encoder.hidden_dim


def test_a_layer_of_ones_own(gym, tmp_path):
    from torch_geometric.graphgym import register

    class Noisy(torch.nn.Module):
        def __init__(self, config, **kwargs):
            super().__init__()
            self.linear = torch.nn.Linear(config.dim_in, config.dim_out)
            # an own number, which a meta tensor could not give
            self.scale = float(torch.rand(1)) * 0 + 2.0

        def forward(self, batch):
            batch.x = self.scale * self.linear(batch.x)
            return batch

    register.layer_dict["noisy"] = Noisy
    method, task, loaded = trained(gym, tmp_path, "train.mode", "erm", "gnn.layer_type", "noisy")
    check_bits(method, task, loaded)
    del register.layer_dict["noisy"]
    with pytest.raises(InputError, match="gnn.layer_type: the layer 'noisy' failed"):
        build.load_model(tmp_path / "one")


@pytest.mark.parametrize("mode", ["srnc", "iid"])
def test_the_file_alone_gives_an_estimator(gym, tmp_path, mode):
    words = ["optim.base_lr", "0.02", "gnn.layer_type", "gatconv", "seed", "3"]
    words += [f"{mode}.steps", "5"]
    method, task, loaded = trained(gym, tmp_path, "train.mode", mode, *words)
    path = shutil.copy(tmp_path / "one" / "3" / "model.safetensors", tmp_path / "moved.pt")
    estimator = graphgym_srnc.load(path)
    graph = new_graph(task)
    assert estimator.backbone == "gatconv" and (estimator.hidden, estimator.heads) == (8, 2)
    assert (estimator.lr, estimator.random_state, estimator.max_episodes) == (0.02, 3, 1)
    probabilities = loaded.predict(graph).posterior.numpy()
    assert np.array_equal(estimator.predict_proba(graph), probabilities)
    labels = np.array(models.original_labels(task.oracle if method.oracle else task))
    assert np.array_equal(estimator.classes_, labels)
    assert np.array_equal(estimator.predict(graph), labels[probabilities.argmax(1)])
    of_run = graphgym_srnc.load(tmp_path / "one")
    assert of_run.scores_["test"] == of_run.record_.history[of_run.record_.best].test != {}
    assert not hasattr(estimator, "record_") and hasattr(estimator.fit(task), "record_")
    estimator.save(path)
    assert graphgym_srnc.load(path).get_params() == estimator.get_params()


@pytest.mark.parametrize("write", [torch.save, lambda value, path: path.write_bytes(dumps(value))])
def test_a_pickle_is_refused(tmp_path, write):
    write(Trap(tmp_path / "ran"), tmp_path / "a")
    with pytest.raises(InputError, match="it is damaged, or another kind of file"):
        models.load(tmp_path / "a")
    assert not (tmp_path / "ran").exists()


def test_scores_of_a_run_can_be_had_again(gym, tmp_path):
    words = [*SMALL, "out_dir", str(tmp_path), "train.max_episodes", "0"]
    cfg = gym.load_config(None, words)
    place = runs.experiment(cfg, "kept")
    for seed in (3, 1):
        result = runs.run(cfg, seed, place, extras=runs.Extras(False))
    loaded = build.load_model(place.path)
    assert loaded.result["seed"] == 1 and loaded.class_names[-1] == "unknown"
    task = build.task_of(loaded)
    scores = loaded.method.predict(task.target)[task.test]
    assert scores_of(loaded.method, task, scores, task.target.y[task.test]) == result["test"]
    assert loaded.class_names[:-1] == tuple(map(str, models.original_labels(task)[:-1]))
    without = gym.load_config(None, [*words, "train.save_model", "false"])
    assert runs.experiment(without, "kept").digest == place.digest
    runs.run(without, 0, runs.experiment(without, "none"), extras=runs.Extras(False))
    with pytest.raises(InputError, match="save_model=True"):
        build.load_model(tmp_path / "none" / "0")


def test_what_is_refused(gym, tmp_path):
    method, task, loaded = trained(gym, tmp_path, "train.mode", "erm", "erm.steps", "2")
    with pytest.raises(InputError, match="41 features, and training had 40"):
        loaded.predict(Data(x=torch.ones(3, 41), edge_index=torch.tensor([[0], [1]])))
    with pytest.raises(InputError, match="path"):
        build.load_model(tmp_path / "nothing")
    run = tmp_path / "one" / "0"
    result = json.loads((run / "result.json").read_text())
    records.write_record(run, result | {"split": "another"})
    with pytest.raises(InputError, match="belongs to another run"):
        build.load_model(run)
    with pytest.raises(InputError, match="has changed since the run"):
        loaded.result["split"] = "another"
        build.task_of(loaded)
    records.write_record(run, result)
    whole = (run / models.FILE).read_bytes()
    (run / models.FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        build.load_model(run)
    (run / models.FILE).unlink()
    with pytest.raises(InputError, match="save_model=True"):
        build.load_model(run)

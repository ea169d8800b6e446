"""The model that a run keeps predicts the same bits as the method that was trained, on its own graph and on graphs it never saw."""
from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import make_graph
from torch_geometric.data import Data

from graphgym_srnc import methods, store
from graphgym_srnc.errors import InputError
from graphgym_srnc.train import trainer

SMALL = ["synthetic.num_nodes", "200", "synthetic.num_val", "40", "synthetic.num_test", "80", "synthetic.num_features", "40",
         "synthetic.num_classes", "5", "gnn.dim_inner", "8", "gnn.att_heads", "2", "train.max_episodes", "1", "srnc.cluster_pretrain_steps",
         "10", "srnc.pretrain_steps", "10", "srnc.steps", "5"]


def trained(gym, tmp_path: Path, *words: str):
    """The method of a config, trained, its task, and the model that it left, read back."""
    from graphgym_srnc.runs import model
    from graphgym_srnc.runs import run as runs
    cfg = gym.load_config(None, [*SMALL, *words])
    task = gym.build_task(cfg)
    method, _ = gym.fit(cfg, task)
    place = runs.experiment(cfg, "one")
    model.save(tmp_path, cfg, method, task, place.digest)
    result = {"format": store.FORMAT, "seed": cfg.seed, "digest": place.digest, "split": task.fingerprint(), "method": cfg.train.mode,
              "history": [{"losses": {}}], "selected": 0, "lr": 0.01, "params": 1, "config": place.config}
    run = tmp_path / "one" / str(cfg.seed)
    run.mkdir(parents=True)
    shutil.move(tmp_path / model.FILE, run)
    (run / "result.json").write_text(json.dumps(result))
    before = torch.get_rng_state()
    loaded = model.load(run)
    assert torch.equal(before, torch.get_rng_state())
    return method, task, loaded


def new_graph(task) -> Data:
    graph = make_graph(num_nodes=70, num_features=task.num_features, seed=5)
    return Data(x=graph.x, edge_index=graph.edge_index)


def check_bits(method, task, loaded) -> None:
    wide = (task.oracle if method.oracle else task).num_outputs
    for graph in (task.target, new_graph(task)):
        scores, found = method.eval().predict(graph), loaded.predict(graph)
        assert torch.equal(found.label, method.decide(scores))
        assert torch.equal(found.posterior, method.posterior(scores)) and torch.equal(found.confidence, method.confidence(scores))
        assert torch.equal(found.posterior.argmax(1), found.label) and found.posterior.shape == (graph.num_nodes, wide)
        assert found.hidden.shape[0] == graph.num_nodes and torch.isfinite(found.hidden).all()
    assert len(loaded.class_names) == wide


@pytest.mark.parametrize("mode", methods.names())
def test_every_method(gym, tmp_path, mode):
    kind = ["synthetic.num_unseen", "0"] if mode in ("dann", "cmd", "mmd", "coral", "srgnn", "strurw", "a2gnn") else []
    method, task, loaded = trained(gym, tmp_path, "train.mode", mode, *kind)
    check_bits(method, task, loaded)
    graph = new_graph(task)
    found = loaded.predict(graph)
    if mode == "srnc":
        assert torch.equal(found.cluster, method.cluster(graph)) and found.hidden.shape[1] == method.clusters[0].encoder.hidden_dim
    else:
        assert found.cluster is None


@pytest.mark.parametrize("words", [
    ["gnn.layer_type", "dgi"], ["gnn.layer_type", "gatconv"], ["gnn.layer_type", "sgconv", "gnn.layers_mp", "1"],
    ["gnn.layer_type", "generalconv"], ["gnn.batchnorm", "true"], ["srnc.pseudo_labels", "classifier"],
    ["train.mode", "erm", "erm.score", "openmax", "erm.smoothing", "2"],
], ids=lambda words: words[1])
def test_backbones_and_options(gym, tmp_path, words):
    check_bits(*trained(gym, tmp_path, *words))


def test_a_layer_of_ones_own(gym, tmp_path):
    from torch_geometric.graphgym import register

    class Noisy(torch.nn.Module):
        def __init__(self, config, **kwargs):
            super().__init__()
            self.linear = torch.nn.Linear(config.dim_in, config.dim_out)
            self.scale = float(torch.rand(1)) * 0 + 2.0  # an own number, which a meta tensor could not give

        def forward(self, batch):
            batch.x = self.scale * self.linear(batch.x)
            return batch

    register.layer_dict["noisy"] = Noisy
    method, task, loaded = trained(gym, tmp_path, "train.mode", "erm", "gnn.layer_type", "noisy")
    check_bits(method, task, loaded)
    del register.layer_dict["noisy"]
    from graphgym_srnc.runs import model
    with pytest.raises(InputError, match="gnn.layer_type: got 'noisy'"):
        model.load(tmp_path / "one")


def test_a_run_keeps_its_model_and_its_scores_can_be_had_again(gym, tmp_path):
    from graphgym_srnc.runs import model
    from graphgym_srnc.runs import run as runs
    cfg = gym.load_config(None, [*SMALL, "out_dir", str(tmp_path), "train.max_episodes", "0"])
    place = runs.experiment(cfg, "kept")
    for seed in (3, 1):
        result = runs.run(cfg, seed, place, extras=runs.Extras(tensorboard=False))
    loaded = model.load(place.path)
    assert loaded.cfg.seed == loaded.result["seed"] == 1 and loaded.class_names[-1] == "unknown"
    task = loaded.task()
    scores = loaded.method.predict(task.target)[task.test]
    assert trainer.rate(loaded.method, task, scores, task.target.y[task.test]) == result["test"]
    originals = task.source.y_true[task.train]
    assert loaded.class_names[:-1] == tuple(str(int(originals[task.source.y[task.train] == k][0])) for k in range(task.num_known))
    without = gym.load_config(None, [*SMALL, "out_dir", str(tmp_path), "train.max_episodes", "0", "train.save_model", "false"])
    assert runs.experiment(without, "kept").digest == place.digest
    runs.run(without, 0, runs.experiment(without, "none"), extras=runs.Extras(tensorboard=False))
    with pytest.raises(InputError, match="train.save_model"):
        model.load(tmp_path / "none" / "0")


def test_what_is_refused(gym, tmp_path):
    from graphgym_srnc.runs import model
    method, task, loaded = trained(gym, tmp_path, "train.mode", "erm", "erm.steps", "2")
    with pytest.raises(InputError, match="41 features.*40, as in training"):
        loaded.predict(Data(x=torch.ones(3, 41), edge_index=torch.tensor([[0], [1]])))
    with pytest.raises(InputError, match="RUN"):
        model.load(tmp_path / "nothing")
    run = tmp_path / "one" / "0"
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | {"split": "another"}))
    with pytest.raises(InputError, match="belongs to another run"):
        model.load(run)
    (run / "result.json").write_text(json.dumps(result))
    with pytest.raises(InputError, match="data of the run"):
        loaded.result["split"] = "another"
        loaded.task()
    whole = (run / model.FILE).read_bytes()
    (run / model.FILE).write_bytes(whole[:len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        model.load(run)
    torch.save({"about": json.dumps({"format": 2}), "state": {}, "code": shutil}, run / model.FILE, pickle_module=_NoModule)
    with pytest.raises(InputError, match="damaged"):
        model.load(run)
    (run / model.FILE).unlink()
    (run / "result.json").write_text(json.dumps(result | {"method": "standard"}))
    with pytest.raises(InputError, match="train.mode standard"):
        model.load(run)


class _NoModule:
    """A pickle that would run code: weights_only has to refuse it."""

    import pickle as _pickle

    class Pickler(_pickle.Pickler):
        def reducer_override(self, thing):
            return (print, ("code ran",)) if thing is shutil else NotImplemented

    dump = staticmethod(_pickle.dump)

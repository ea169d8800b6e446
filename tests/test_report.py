"""Tables are right, TensorBoard reads back whole, and watching a run changes none of its numbers."""
from __future__ import annotations

import csv
import io
import random

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphgym_srnc import store, trainer
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.report import figures, table
from graphgym_srnc.report.tensorboard import TensorBoard, classes, untouched
from graphgym_srnc.task import ShiftTask


def toy_task() -> ShiftTask:
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(60) % 4
    graph = Data(x=torch.eye(4)[true] + 0.3 * torch.rand(60, 4, generator=generator), y=true.clamp(max=2), y_true=true,
                 edge_index=torch.randint(60, (2, 120), generator=generator))
    nodes = torch.arange(60)
    return ShiftTask("open_set/toy", graph, graph, train=nodes[:20][true[:20] < 2], val=nodes[20:40], test=nodes[40:], pool=nodes[20:],
                     num_known=2, open_set=True, class_names=("left", "right"))


class Noisy(Method):
    """Draws from every random generator, so that a callback that does so too is found out."""

    episodes = 3

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.task, self.layer = task, torch.nn.Linear(4, 3)
        return self.episode()

    def episode(self) -> dict[str, float]:
        self.train()
        with torch.no_grad():
            self.layer.weight += 0.5 * torch.randn(3, 4) + random.random() + np.random.rand()
        self.warnings = ["the cluster GNN collapsed"]
        return {"source": float(self.layer.weight.detach().norm()), "mode": float(self.layer.training)}

    def predict(self, graph: Data) -> torch.Tensor:
        self.eval()
        torch.rand(1)
        return self.layer(graph.x).detach()

    def views(self):
        return {"clusters": lambda graph: (torch.randn(graph.num_nodes, 5) + np.random.rand(), self.predict(graph).argmax(1))}


def fit(callbacks=()) -> tuple[trainer.RunRecord, Noisy]:
    random.seed(0)
    np.random.seed(0)
    method = Noisy()
    return trainer.fit(method, toy_task(), seed=3, callbacks=callbacks), method


def figures_of(record: trainer.RunRecord) -> list:
    return [(episode.losses, episode.val, episode.test) for episode in record.history]


def test_tensorboard_reads_back_everything(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    board = TensorBoard(tmp_path, figures=True, every=2)
    record, method = fit([board])
    board.finish(record, method, toy_task(), {"seed": 3, "gnn.dim_inner": 16, "open_set.unseen": [1, 2]})
    board.close()
    events = EventAccumulator(str(tmp_path), {"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    for block in ("losses", "val", "test"):
        for name in getattr(record.history[0], block):
            read = [(event.step, event.value) for event in events.Scalars(f"{block}/{name}")]
            assert read == [(e.number, pytest.approx(getattr(e, block)[name], rel=1e-6)) for e in record.history]
    assert events.Scalars("final/test_micro_f1")[0].value == pytest.approx(record.test["micro_f1"])
    assert [image.step for image in events.Images("clusters")] == [0, 2] == [image.step for image in events.Images("confusion")]
    assert events.Images("selected/clusters")[0].encoded_image_string.startswith(b"\x89PNG")
    assert b"collapsed" in events.Tensors("warnings/text_summary")[0].tensor_proto.string_val[0]
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(events.summary_metadata)
    assert b"dim_inner" in events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert sorted(file.name for file in (tmp_path / "figures").iterdir()) == [
        f"{name}-{stem}.png" for name in ("clusters", "confusion") for stem in ("episode-000", "episode-002", "selected")]


def test_watching_changes_no_number(tmp_path):
    plain, _ = fit()
    board = TensorBoard(tmp_path, figures=True, every=1, how="tsne")
    watched, _ = fit([board])
    board.close()
    assert figures_of(plain) == figures_of(watched) and plain.best == watched.best


def test_untouched_puts_training_modes_back():
    method = fit()[1].train()
    with untouched(method):
        method.eval()
    assert method.training and method.layer.training


def test_no_events_and_no_figures_write_nothing(tmp_path):
    board = TensorBoard(tmp_path, events=False, figures=False)
    record, method = fit([board])
    board.finish(record, method, toy_task(), {})
    board.close()
    assert not list(tmp_path.iterdir())


def test_unseen_classes_are_told_apart():
    label, names, unseen = classes(toy_task())
    assert names == ["left", "right", "unseen 2", "unseen 3"] and unseen == [2, 3]
    assert label.tolist() == (np.arange(60) % 4).tolist()


def test_maps_and_figures():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(30, 6)), rng.normal(size=(30, 6)) + 9])
    for how in figures.MAPS:
        flat = figures.map_2d(points, how)
        assert flat.shape == (60, 2) and np.array_equal(flat, figures.map_2d(points, how))
        assert abs(flat[:30].mean(0) - flat[30:].mean(0)).max() > 2 * max(flat[:30, 0].std(), flat[30:, 0].std())
    assert figures.map_2d(points[:, :1]).shape == (60, 2)
    with pytest.raises(InputError, match="pca, tsne"):
        figures.map_2d(points, "umap")
    assert len(figures.sample(5000)) == 2000 and figures.sample(7).tolist() == list(range(7))
    many = figures.embedding_figure(figures.map_2d(points), np.arange(60), np.arange(60) % 30, [f"class {i}" for i in range(30)])
    assert figures.png(many).startswith(b"\x89PNG")
    assert figures.png(figures.confusion_figure(np.zeros((30, 30), dtype=int), ["x"] * 30)).startswith(b"\x89PNG")


def test_clusters_take_the_colour_of_their_class():
    label = np.repeat([0, 1, 2], 20)
    figure = figures.embedding_figure(np.zeros((60, 2)), np.repeat([7, 9, 4], 20), label, ["a", "b", "c"])
    texts = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert texts == [["cluster 7", "cluster 9", "cluster 4"], ["a", "b", "c"]]


def result(split: str, score: float, method: str = "srnc", backbone: str = "gcnconv", **other) -> dict:
    scores = {"micro_f1": score, "macro_f1": 0.5, "macro_recall": 0.5, "unknown_recall": 0.25, "unknown_precision": 0.5}
    history = [{"number": 0, "losses": {}, "train": {"micro_f1": 1.0}, "val": scores, "test": scores, "seconds": 0.1}]
    return {"method": method, "backbone": backbone, "split": split, "warnings": [], "selected": 0, "lr": 0.01, "params": 1,
            "history": history, "val": scores, "test": scores} | other


def keep(root, name: str, scores: dict[int, float], **other) -> dict[int, dict]:
    experiment = store.Experiment(root, name, {"name": name})
    for seed, score in scores.items():
        experiment.begin(seed)
        experiment.finish(seed, result(f"split {seed}", score, **other))
    return experiment.results()


def test_summary_and_the_distance_to_the_oracle(tmp_path):
    results = keep(tmp_path, "ours", {0: 0.7, 1: 0.8, 2: 0.6})
    row = table.summarise("ours", results, tmp_path)
    assert row["runs"] == 3 and row["micro_f1"] == pytest.approx(0.7) and row["micro_f1_std"] == pytest.approx(np.std([0.7, 0.8, 0.6]))
    assert "drop" not in row
    keep(tmp_path, "another backbone", {0: 0.99, 1: 0.99, 2: 0.99}, method="iid", backbone="gatconv")
    oracle = keep(tmp_path, "oracle", {1: 0.9, 2: 0.8, 7: 0.1}, method="iid")
    row = table.summarise("ours", results, tmp_path)
    assert (row["oracle"], row["drop_pairs"]) == ("oracle", 2)
    assert row["drop"] == pytest.approx(0.15) and row["drop_std"] == pytest.approx(0.05)
    assert "drop" not in table.summarise("oracle", oracle, tmp_path)


def test_tables_are_written_and_shown(tmp_path):
    warned = {0: result("a", 0.5, warnings=["collapsed"]), 1: result("b", 0.7)}
    rows = [table.summarise("one|two", warned)]
    table.write(tmp_path, rows)
    read = list(csv.DictReader((tmp_path / "summary.csv").open()))
    assert float(read[0]["micro_f1"]) == pytest.approx(0.6) and float(read[0]["micro_f1_std"]) == pytest.approx(0.1)
    markdown = (tmp_path / "summary.md").read_text()
    assert "one\\|two" in markdown and "60.0 ± 10.0" in markdown and "population" in markdown and "1 of 2 run(s) gave a warning" in markdown
    plain = io.StringIO()
    table.show(rows, plain)
    assert "60.0 ± 10.0" in plain.getvalue() and "\x1b" not in plain.getvalue()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    table.show(rows, shown)
    assert "one|two" in shown.getvalue().replace("\n", "")

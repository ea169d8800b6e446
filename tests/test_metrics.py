"""Scores against scikit-learn and brute force."""

from __future__ import annotations

from statistics import harmonic_mean

import numpy as np
import pytest
import torch
from sklearn import metrics as scikit

from graphgym_srnc.train import metrics


def draw(classes: int, seed: int, nodes: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(classes, (nodes,), generator=generator) for _ in range(2))


@pytest.mark.parametrize("num_known, open_set", [(4, True), (5, False)])
def test_scores_are_scikit_learns(num_known, open_set, seed=0):
    prediction, label = draw(num_known + open_set, seed)
    scores = metrics.classification_scores(prediction, label, num_known, open_set)
    expected = {
        "micro_f1": scikit.f1_score(label, prediction, average="micro"),
        "macro_f1": scikit.f1_score(label, prediction, average="macro"),
        "macro_recall": scikit.recall_score(label, prediction, average="macro"),
    }
    if open_set:
        true = label == num_known
        said = prediction == num_known
        expected |= {
            "unknown_recall": scikit.recall_score(true, said),
            "unknown_precision": scikit.precision_score(true, said),
        }
        recalls = [
            float((prediction == label)[label == c].float().mean()) for c in range(num_known)
        ]
        accuracy = float((prediction == label)[~true].float().mean())
        expected |= {
            "known_accuracy": accuracy,
            "known_recall": np.mean(recalls),
            "hs": harmonic_mean([accuracy, expected["unknown_recall"]]),
        }
    assert scores == pytest.approx(expected)
    assert scores["micro_f1"] == pytest.approx(scikit.accuracy_score(label, prediction))


def test_absent_classes_do_not_count():
    prediction = torch.tensor([0, 1, 1, 0, 2])
    label = torch.tensor([0, 0, 1, 0, 1])
    scores = metrics.classification_scores(prediction, label, 4, True)
    wanted = scikit.f1_score(label, prediction, average="macro", labels=[0, 1])
    assert scores["macro_f1"] == pytest.approx(wanted)
    assert scores["macro_recall"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert not {"unknown_recall", "unknown_precision", "hs"} & {*scores}
    assert scores["known_recall"] == scores["macro_recall"]
    assert scores["known_accuracy"] == pytest.approx(3 / 5)
    alone = metrics.classification_scores(torch.tensor([0, 2]), torch.tensor([2, 2]), 2, True)
    assert not {"known_accuracy", "known_recall", "hs"} & {*alone}
    assert alone["unknown_recall"] == 1 / 2 and alone["unknown_precision"] == 1


def confidences(seed: int, ties: bool, nodes: int = 80) -> tuple[torch.Tensor, torch.Tensor]:
    """Confidences, somewhat lower for unknown nodes, and who is unknown."""
    generator = torch.Generator().manual_seed(seed)
    unknown = torch.rand(nodes, generator=generator) < 0.3
    sure = torch.rand(nodes, generator=generator) - 0.3 * unknown
    return (sure * 6).round() / 6 if ties else sure, unknown


@pytest.mark.parametrize("seed, ties", [(0, False), (1, True), (2, True)])
def test_detection_scores_are_scikit_learns_to_the_last_bit(seed, ties):
    sure, unknown = confidences(seed, ties)
    found = metrics.detection_scores(sure, unknown, torch.ones_like(unknown))
    assert found.pop("oscr") == pytest.approx(found["unknown_auroc"])
    sure = sure.double().numpy()
    unknown = unknown.numpy()
    through, kept, _ = scikit.roc_curve(~unknown, sure, drop_intermediate=False)
    assert found == {
        "unknown_auroc": scikit.roc_auc_score(unknown, -sure),
        "unknown_aupr": scikit.average_precision_score(unknown, -sure),
        "unknown_fpr95": through[kept >= 0.95].min(),
    }
    same = torch.full((5,), 0.5), torch.tensor([True, False, False, True, False])
    assert metrics.detection_scores(*same, torch.ones(5, dtype=torch.bool))["unknown_auroc"] == 0.5


@pytest.mark.parametrize("seed, ties", [(0, False), (1, True)])
def test_oscr_is_the_area_under_its_curve(seed, ties):
    sure, unknown = confidences(seed, ties)
    right = torch.rand(80, generator=torch.Generator().manual_seed(seed + 9)) < 0.7
    curve = [(0.0, 0.0)]
    for cut in sorted(set(sure.tolist()), reverse=True):
        through = (sure >= cut).float()
        named = (through * right)[~unknown]
        curve.append((float(through[unknown].mean()), float(named.mean())))
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(curve, curve[1:]))
    found = metrics.detection_scores(sure, unknown, right)["oscr"]
    assert found == pytest.approx(area, abs=1e-6) and 0.2 < found < 0.7
    # Whether an unknown node's likeliest known class is its own makes no sense, and no difference.
    assert metrics.detection_scores(sure, unknown, right | unknown)["oscr"] == found

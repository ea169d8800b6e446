"""Scores against scikit-learn and brute force."""
from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, normalized_mutual_info_score, precision_score, recall_score

from graphgym_srnc import metrics

EMPTY_CLASSES = (torch.tensor([0, 1, 1, 0, 2]), torch.tensor([0, 0, 1, 0, 1]))


def draw(classes: int, seed: int, nodes: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(classes, (nodes,), generator=generator) for _ in range(2))


@pytest.mark.parametrize("num_known, open_set", [(2, True), (4, True), (5, False)])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_scikit_learns(num_known, open_set, seed):
    prediction, label = draw(num_known + open_set, seed)
    scores = metrics.classification_scores(prediction, label, num_known, open_set)
    expected = {"micro_f1": f1_score(label, prediction, average="micro"), "macro_f1": f1_score(label, prediction, average="macro"),
                "macro_recall": recall_score(label, prediction, average="macro")}
    if open_set:
        expected |= {"unknown_recall": recall_score(label == num_known, prediction == num_known),
                     "unknown_precision": precision_score(label == num_known, prediction == num_known)}
    assert scores == pytest.approx(expected)
    assert scores["micro_f1"] == pytest.approx(accuracy_score(label, prediction))


def test_absent_classes_do_not_count():
    prediction, label = EMPTY_CLASSES
    scores = metrics.classification_scores(prediction, label, 4, True)
    assert scores["macro_f1"] == pytest.approx(f1_score(label, prediction, average="macro", zero_division=0))
    assert scores["macro_recall"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert scores["unknown_recall"] == scores["unknown_precision"] == 0


def test_confusion_matrix():
    prediction, label = draw(4, 0)
    assert (metrics.confusion_matrix(prediction, label, 6).numpy() == confusion_matrix(label, prediction, labels=range(6))).all()


@pytest.mark.parametrize("clusters, classes", [(4, 4), (6, 3), (2, 5)])
def test_clustering_scores_are_brute_force(clusters, classes):
    cluster, label = draw(clusters, 0)[0], draw(classes, 1)[1]
    size = max(clusters, classes)
    best = max(float((np.array(names)[cluster] == label.numpy()).mean()) for names in permutations(range(size)))
    scores = metrics.clustering_scores(cluster, label)
    assert scores["acc"] == pytest.approx(best)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(label, cluster))


def test_clusters_are_known_up_to_names():
    label = draw(4, 2)[0]
    scores = metrics.clustering_scores(torch.tensor([12, 3, 7, 0])[label], label)
    assert scores == pytest.approx({"acc": 1, "nmi": 1})

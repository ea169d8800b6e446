"""Clusterings of nodes that the paper's appendix compares its cluster GNN with."""

from __future__ import annotations

from graphgym_srnc.own.clustering.embeddings import KINDS, embed
from graphgym_srnc.own.clustering.kmeans import Clustering, constrained_kmeans, split_unknown

__all__ = ["KINDS", "Clustering", "constrained_kmeans", "embed", "split_unknown"]

"""Figures of runs, scores and embeddings, drawn with Matplotlib."""

"""Training loop over episodes, selection of the best episode, scores and diagnostics."""

"""The same search for every method: equal trials, one selector, settings chosen on validation."""

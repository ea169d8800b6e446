"""The loop over episodes, what it selects by, and how predictions are scored and judged."""

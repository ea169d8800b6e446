"""What surrounds one fit: a config and a seed, from the task to what is stored."""

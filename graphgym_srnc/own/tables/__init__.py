"""From a user's own tables, text and heterogeneous graphs to a graph folder, which the shift ``file`` reads."""

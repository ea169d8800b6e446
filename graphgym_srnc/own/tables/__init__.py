"""From tables, texts and heterogeneous graphs to a graph folder, which the shift ``file`` reads."""

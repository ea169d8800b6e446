"""A user's own graph: tables to a graph, clusters of unknown nodes."""

"""Clusters of nodes that no known class stands for: found, measured, described, shown, and fed back as new classes."""

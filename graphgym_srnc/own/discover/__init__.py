"""Clusters of nodes that no known class stands for: found, measured, described, shown, fed back."""

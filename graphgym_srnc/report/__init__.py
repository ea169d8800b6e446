"""What is shown of runs: tables, comparisons and pages; each module loads what it needs."""

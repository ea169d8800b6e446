"""Many runs: grids and hyper-parameter search."""

"""Many runs: what a grid file asks for, and who runs it."""

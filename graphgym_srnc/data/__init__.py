"""What is read from disk or made in memory."""

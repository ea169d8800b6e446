"""What is shown of runs: tables, TensorBoard, pictures. Each module loads what it needs, so nothing is imported here."""

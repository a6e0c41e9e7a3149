"""Commands that start, stop and show a plane: up, down, status, top, logs."""

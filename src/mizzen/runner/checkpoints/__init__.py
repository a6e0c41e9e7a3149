"""Checkpoints of a training command: they are detected, recorded in a ledger, published and uploaded."""

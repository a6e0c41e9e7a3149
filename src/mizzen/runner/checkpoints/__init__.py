"""How checkpoints leave a training command: they are noticed, recorded in a ledger, published and uploaded."""

"""How checkpoints leave a training command: noticed, published, recorded in a ledger, uploaded."""

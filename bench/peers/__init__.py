"""Mizzen beside other model servers: the same model files, the same client, each in its own environment.

`make bench-peers` runs `run.py`. What is asked is in `questions.py`, who is asked in `lineup.py`, and how that is
read in `tables.py` and `figures.py`. What lies in `programs/` runs in the environment of a peer, not in ours.
"""

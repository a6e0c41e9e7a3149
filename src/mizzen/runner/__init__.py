"""The runner: one attempt of one replica of a job set. It fetches code and data, runs a command, and stores its
results.

The engine starts `python -m mizzen.runner` below the supervisor; it is never imported. It runs in Mizzen's own
interpreter, and the command in that of the version's environment. It must start quickly, and use almost no resources
while the command runs. Retries are decided in controllers/training; reading the results is in runs.
"""

"""Routes of training jobs: starting them, finding them, their logs and their checkpoints.

Deciding what runs is in `controllers.training`.
"""

"""Routes for training jobs: starting and finding them, their logs and their checkpoints.

Decisions about jobs are in `controllers.training`.
"""

"""Routes for training jobs: starting and finding them, their logs and their checkpoints.

Deciding what runs is in `controllers.training`.
"""

"""What training leaves on disk and in Blobs, and how it is read: folders, records, checkpoints, logs, scalars.

Runners write it; engine, controllers and server read it, while a job runs and long after. Standard library and blobs
only: a runner has to start quickly. Not here: deciding anything (controllers/training) and running anything (runner).
"""

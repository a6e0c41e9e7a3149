"""Reading and writing the results of training on disk and in blobs: folders, records, checkpoints, logs, scalars.

Runners write them; engine, controllers and server read them, while a job runs and long after. Only the standard library
and blobs are imported: a runner must start quickly. Decisions are in controllers/training, execution in runner.
"""

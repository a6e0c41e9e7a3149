"""Files and folders on disk: hashing, layout, fsync, removal.

Nothing here knows digests of versions or object stores.
"""

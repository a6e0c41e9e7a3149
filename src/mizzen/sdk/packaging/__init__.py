"""Converting users' data for requests, and responses back: folders, Python objects, requirements, tensors, archives.

Nothing here opens a connection, except `upload`, which is given one.
"""

"""Turning what users have into what is sent, and back: folders, Python objects, requirements, tensors, archives.

Nothing here opens a connection, except `upload`, which is handed one.
"""

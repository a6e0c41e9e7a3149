"""Creation of versions: uploads, sources, downloads, framework detection and registration.

Serving a version is in `server.models`; the files themselves are in `mizzen.blobs`.
"""

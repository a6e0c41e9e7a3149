"""Backups: a plane's data dir as one file, created while the plane runs, and restored to a data dir.

`manifest` defines the contents of a backup, `archive` its file format. `snapshot` copies a database under load,
`documents` copies the documents of the blobs. `create` and `restore` combine them, using `temp_files` until the result
is complete. `folder` keeps many backups in one folder.

Nothing here calls a plane: the owner of the data dir takes the backup, even if the plane is down or unresponsive.
"""

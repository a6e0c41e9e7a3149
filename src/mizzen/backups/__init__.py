"""Backups: a plane's data dir as one file, taken while it runs, and made a data dir again.

`contents` says what belongs to one, `archive` what the file looks like, `snapshot` how a database is copied under load,
`documents` how those of Blobs are; `making` and `restoring` put them together, in `drafts` until they are whole;
`shelf` keeps many beside each other.
Nothing here asks a plane: a backup is taken by whoever owns the data dir, so that it can be taken of one that does not
run or does not answer, too.
"""

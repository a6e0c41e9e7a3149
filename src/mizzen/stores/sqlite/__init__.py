"""The Store protocol over one SQLite file: one writer, many readers, watch, revisions, indexes."""

"""Records other than objects: audit entries, identities, sealed secrets; their protocol and their SQLite tables."""

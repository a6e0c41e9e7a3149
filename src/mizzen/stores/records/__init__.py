"""Records beside the objects: audit entries, identities, sealed secrets; their protocol and their SQLite tables."""

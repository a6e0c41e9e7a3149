"""HTTP plumbing that every route shares: the context of a request, bodies, pages, streams, errors and headers.

Routes and rules about objects do not belong here; nothing here knows a kind.
"""

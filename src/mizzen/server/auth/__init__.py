"""Identity and rights of callers: authentication, authorization, role bindings, tokens, OIDC and the audit log.

Routes that manage users live in `server.admin`; the pure policy lives in `mizzen.access`.
"""

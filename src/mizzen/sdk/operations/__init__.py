"""Work that takes several calls: apply, compare, deploy, scale, roll back, train, follow logs.

Single calls are in `sdk.api`.
"""

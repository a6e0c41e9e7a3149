"""One module per part of a plane's API, each a set of asynchronous calls over `sdk.connection.transport`.

Objects with methods for users are in `sdk.handles`; multi-step work is in `sdk.operations`.
"""

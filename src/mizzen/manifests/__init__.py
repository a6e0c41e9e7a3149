"""Files people write, as objects to send.

Here: strict YAML and JSON (`parsing`, `plain_yaml`), the apiVersions and kinds that files may name (`aliases`), files,
folders and texts as documents (`reader`), what is wrong or odd with them (`lint`), how live objects differ
(`canonical`), and graphs of others as ours (`importing`). The same for the CLI, the SDK and, as far as bodies
go, for the server.
Not here: HTTP, and what the fields of a kind mean (`kinds`).
"""

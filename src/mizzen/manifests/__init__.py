"""Manifests: files that people write, read as objects to send.

Here: strict YAML and JSON (`strict_parse`, `strict_yaml`), accepted apiVersions and kinds (`api_versions`), files,
folders and texts as documents (`reader`), their faults and warnings (`lint`), and the difference to live objects
(`canonical`). The CLI and the SDK use it, and the server does for request bodies.
Not here: HTTP, the meaning of fields (`kinds`), and imports from other platforms (`importers`).
"""

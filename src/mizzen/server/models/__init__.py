"""The `/model` API: models, aliases, history, servers, graphs, and the Triton repository API.

Uploading and registering versions is in `server.versions`.
"""

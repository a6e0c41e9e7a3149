"""Commands on any kind of object: apply, get, describe, explain, watch, history, import."""

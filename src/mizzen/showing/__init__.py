"""Tools of others that show something to people, as the plane starts them: they answer the plane, and nobody else.

They listen on loopback, where every account of this machine can ask; so whoever asks has to send the plane's key
(`gate`). Not here: who may look, which the plane decides (`server/monitor`). Of ours it imports nothing, beside that
the tool and the standard library. It is started, never imported.
"""

"""Third-party viewers such as TensorBoard, as the plane starts them: they serve only the plane.

They listen on loopback, which every account of this machine can reach, so each request must carry the plane's key
(`gate`). The plane decides who may view them (`server/monitor`). This package imports only the tool and the standard
library, nothing else of Mizzen. It is started as a process, never imported.
"""

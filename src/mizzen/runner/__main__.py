"""`python -m mizzen.runner`."""

from __future__ import annotations

import os
import sys

from mizzen.blobs.object_store_credentials import PREFIXES
from mizzen.runner.attempt import main

if __name__ == "__main__":
    environ = dict(os.environ)
    # The command's credentials: the runner itself opens the plane's blobs, and must not use them for that.
    for name in environ:
        if name.startswith(PREFIXES):
            del os.environ[name]
    code = main(environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that waits for a store must not delay the exit

"""`python -m mizzen.runner`."""

from __future__ import annotations

import os
import sys

from mizzen.runner.attempt import main

if __name__ == "__main__":
    code = main(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that waits for a store must not delay the exit

"""`python -m mizzen.runtime`: see `process.py`. Here only what must come before the first import of numpy."""

from __future__ import annotations

import os
import sys

from mizzen.runtime.limits import threads

if __name__ == "__main__":
    threads.limit(os.environ)
    from mizzen.runtime.process import main

    sys.exit(main(sys.argv[1:], os.environ))

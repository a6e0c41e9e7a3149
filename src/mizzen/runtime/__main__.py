"""`python -m mizzen.runtime`: see `process.py`. Only setup that must precede the first import of numpy is here."""

from __future__ import annotations

import os
import sys

from mizzen.runtime.limits import threads

if __name__ == "__main__":
    threads.limit(os.environ)
    from mizzen.runtime.process import main

    sys.exit(main(sys.argv[1:], os.environ))

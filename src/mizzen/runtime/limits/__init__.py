"""Limits of a runtime: memory, threads, GPU share, a watchdog, and hints for missing packages."""

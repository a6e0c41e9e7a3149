"""Supervised processes: starting, watching and ending them, their logs, and what the kernel knows of them.

Standard library only, as everything below `supervisor`.
"""

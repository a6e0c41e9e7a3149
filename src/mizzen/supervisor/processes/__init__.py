"""Supervised processes: starting, watching and ending them, their logs, and their state in the kernel.

Standard library only, like everything in `supervisor`.
"""

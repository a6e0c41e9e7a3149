"""Scalars that training code wrote, by step: from event files of TensorBoard, metric files, and progress reports.

All of it was written by other people's code: every reader is bounded, and what is damaged is left out with a word.
Standard library only. Not here: who may see it, and how it is shown (server/monitor).
"""

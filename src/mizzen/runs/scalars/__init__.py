"""Scalars that training code wrote, by step: from event files of TensorBoard, metric files, and progress reports.

User code wrote all of it: every reader is bounded, and damaged parts are left out with a message. Standard library
only. Access control and presentation are in server/monitor.
"""

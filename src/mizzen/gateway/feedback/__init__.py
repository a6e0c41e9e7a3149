"""Feedback on earlier answers: routes, accuracy, and the records that connect an answer to its feedback.

Learned state is in `mizzen.selection`.
"""

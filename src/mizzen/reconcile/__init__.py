"""The machine that keeps resources as their owners want them, ignorant of machine learning.

Here: the queue of keys, what a controller is, writing what one decided, the loop that runs them.
Not here: any one controller, any store or engine, the meaning of a spec.
"""

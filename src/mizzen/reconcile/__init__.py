"""The reconciliation machinery, which knows nothing about machine learning.

Here: the queue of keys, the controller protocol, writing decisions, and the loop that runs controllers.
Not here: concrete controllers, stores, engines, or the meaning of a spec.
"""

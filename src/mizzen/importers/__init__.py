"""Graphs that were written for KServe and Seldon, as MLGraphs, with notes on what has no equal. Pure.

Here: what those files hold (`foreign`), one module for each that turns them (`kserve`; `seldon`, with the trees of its
predictors in `units`), the nodes they make (`dag`), names of nodes and models (`labels`, `served`), shares of traffic
(`shares`), what is said beside (`notes`), and files of any sort as one import (`files`).
Not here: models. Graphs call them by name, and the notes say which are to be deployed.
"""

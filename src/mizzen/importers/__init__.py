"""Imports of KServe and Seldon graphs as MLGraphs, with notes on features that have no equivalent. Pure.

Here: the types of those files (`source_types`), a converter for each (`kserve`; `seldon`, with the trees of its
predictors in `seldon_units`), the nodes they produce (`dag_builder`), names of nodes and models (`dns_labels`,
`model_names`), shares of traffic (`percentages`), `notes`, and the import of files (`files`).
Not here: models. Graphs call them by name, and the notes say which models to deploy.
"""

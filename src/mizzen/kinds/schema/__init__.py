"""The framework that kinds are declared with: resources, metadata, findings, columns, conditions, explain, CRD schemas.

No kind is declared here.
"""

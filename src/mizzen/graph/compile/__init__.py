"""Compiles models and graphs into the Table of plans that gateways run. Pure."""

"""Parsers for the texts in fields: names, versions, references, durations, quantities, addresses."""

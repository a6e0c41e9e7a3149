"""Texts that people write in fields, and what they mean: names, versions, references, durations, amounts, addresses."""

"""Commands on training jobs and monitors."""

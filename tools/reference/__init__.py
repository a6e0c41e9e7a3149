"""One module per reference page: each has `page() -> str`, Markdown generated from the code alone."""

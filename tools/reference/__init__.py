"""One module per reference page: each has `page() -> str`, Markdown made from the code alone."""

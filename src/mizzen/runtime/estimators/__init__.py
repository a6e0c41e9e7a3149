"""Models with the scikit-learn interface: features, columns, warm-up, fast paths, and tolerated values."""

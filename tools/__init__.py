"""What `make` runs on the repository itself: own lints, generated pages. Never imported by the product."""

"""The inputs of a training command, fetched and verified before it starts: code, files and datasets."""

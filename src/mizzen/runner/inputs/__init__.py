"""What a training command needs before it starts: code, files and datasets, fetched and verified."""

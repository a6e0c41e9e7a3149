"""GPUs of this machine: discovery, allocation to replicas, and what is in use."""

"""Resources -> Table: compiling models and graphs into the plans that gateways run. Pure."""

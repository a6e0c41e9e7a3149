"""Files derived from the kinds that other programs read: CRDs for clusters, the OpenAPI document for clients."""

"""Application and Initializer: components, traits, policies and steps, each type with its own properties."""

"""Commands on users, permissions, tokens, secrets, limits and kubeconfig."""

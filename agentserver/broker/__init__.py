"""A NATS broker as this server uses it: addresses, names, permissions, connections. Internal."""

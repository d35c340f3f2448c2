"""The conversations that gateways hold. Internal."""

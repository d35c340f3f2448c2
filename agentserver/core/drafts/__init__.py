"""Messages as handlers give them: read, routed, kept from the system's own names. Internal."""

"""Words of the principal, indexed, and the parts of them that are orders. Internal."""

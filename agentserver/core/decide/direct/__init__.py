"""Steps that are decided directly, beside the general one. Internal."""

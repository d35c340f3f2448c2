"""Programs of others behind the wall. Internal."""

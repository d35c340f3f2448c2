"""What the principal asked for: its words, indexed, and which of them are orders. Internal."""

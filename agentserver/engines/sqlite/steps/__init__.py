"""What an outcome is as data, before rows are made of it, and as bytes that can travel. Internal."""

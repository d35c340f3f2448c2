"""Plans of handoffs: their steps, read from CSV and checked for what does not fit. Internal."""

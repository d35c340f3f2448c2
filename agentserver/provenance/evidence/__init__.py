"""Evidence: texts, values and destinations, and whether one of them stands in another. Internal."""

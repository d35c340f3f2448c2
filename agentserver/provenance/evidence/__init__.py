"""Evidence: texts, values and destinations, and whether one occurs in another. Internal."""

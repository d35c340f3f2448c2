"""The requirements on an XSD. Internal."""

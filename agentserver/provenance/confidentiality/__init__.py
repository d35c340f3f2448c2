"""Confidentiality: readers of texts, bits that leave through choices, and sites that texts came from. Internal."""

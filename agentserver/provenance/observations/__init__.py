"""State built from observations: untrusted texts, trusted records, relayed texts, and their indexes. Internal."""

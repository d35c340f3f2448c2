"""Value provenance: where the words of a call come from, and whether they may drive it."""

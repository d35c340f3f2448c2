"""The questions of a judgement, by topic. Internal: ``provenance.judge`` puts them in order."""

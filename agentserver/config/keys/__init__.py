"""The keys of ``organism.yaml`` as models. Internal."""

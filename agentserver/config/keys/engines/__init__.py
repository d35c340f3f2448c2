"""The keys below ``engine:`` in ``organism.yaml``. Internal."""

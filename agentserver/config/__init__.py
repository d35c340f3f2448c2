"""From ``organism.yaml`` to frozen values, with every mistake named by file, line and path.

Owns the reading, checking and binding of a configuration. Refuses to know how an organism runs.
"""

from __future__ import annotations

from agentserver.config.findings import ConfigError
from agentserver.config.loading import forget, load
from agentserver.config.organism import Organism

__all__ = ["ConfigError", "Organism", "forget", "load"]

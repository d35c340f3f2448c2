"""From ``organism.yaml`` to frozen values, with every mistake named by file, line and path.

Owns the reading, checking and binding of a configuration. Refuses to know how an organism runs.
"""

from __future__ import annotations

from agentserver.config.findings import ConfigError, Finding, Severity
from agentserver.config.glimpse import Glimpse, glimpse
from agentserver.config.loading import forget, inspect, load, project_directory
from agentserver.config.organism import Bound, Organism, Place
from agentserver.config.secrets import RedactingFilter, Secrets

__all__ = [
    "Bound",
    "ConfigError",
    "Finding",
    "Glimpse",
    "Organism",
    "Place",
    "RedactingFilter",
    "Secrets",
    "Severity",
    "forget",
    "glimpse",
    "inspect",
    "load",
    "project_directory",
]

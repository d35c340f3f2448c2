"""``python -m agentserver``."""

from __future__ import annotations

from agentserver.cli import main

if __name__ == "__main__":
    main()

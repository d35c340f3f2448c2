"""Raises a wall and becomes a program: ``python -I -m agentserver.worker.commands JSON``."""

import sys

from agentserver.worker.commands.becoming import main

sys.exit(main(sys.argv[1:]))

"""Starts a worker: ``python -I -m agentserver.worker DESCRIPTOR``."""

import sys

from agentserver.worker.process import main

sys.exit(main(sys.argv[1:]))

"""The engine that keeps everything in this process and nothing after it; public. Its parts are internal."""

from agentserver.engines.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]

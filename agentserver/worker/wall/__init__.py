"""The wall around a process, by the kernel's means that need no privilege. Internal."""

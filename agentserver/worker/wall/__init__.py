"""The wall around a process, built with unprivileged kernel features. Internal."""

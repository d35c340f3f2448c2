"""Internal: conversations that another process has, and what other processes hand in for those of this one."""

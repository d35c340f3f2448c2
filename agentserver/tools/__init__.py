"""Ready-made listeners for agents: pages, files, mail, arithmetic. Each module has the handlers of one tool."""

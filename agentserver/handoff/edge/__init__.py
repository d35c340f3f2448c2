"""Where handoffs meet files, processes and the network."""

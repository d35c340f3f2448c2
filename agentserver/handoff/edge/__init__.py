"""The edge at which handoffs meet files, processes and the network."""

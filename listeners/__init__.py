"""The research desk: the handlers of the example organism in ``config/organism.yaml``."""

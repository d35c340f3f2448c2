"""AG-UI, the protocol of front ends for agents, as a part of the door. Internal. Needs the extra ``agui``."""

"""Which release this is: what a node's agent says of itself, and what the appliance brings to machines that it registers."""

AGENT_VERSION = "0.1.0"

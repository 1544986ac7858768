"""Version of this release. The agent reports it, and the appliance installs it on nodes."""

AGENT_VERSION = "0.1.0"

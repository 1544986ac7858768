"""`./run --demo-fleet N`: simulated nodes, their programs and users (docs/guides/demo-fleet.md)."""

"""`./bench hardening`: how much hostile clients, strangers and nodes cost the others."""

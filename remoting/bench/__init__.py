"""What `./bench` measures."""

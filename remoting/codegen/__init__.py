"""Reads NVIDIA's public headers and our specification; writes C++ into the build folder."""

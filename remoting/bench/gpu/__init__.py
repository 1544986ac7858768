"""Benchmark on an NVIDIA GPU: programs directly on NVIDIA's driver and through remoting."""

"""Benchmarks of remoting and the software GPU, started by `./bench`."""

"""Generator of C++ from NVIDIA's public headers and the specification in remoting/spec."""

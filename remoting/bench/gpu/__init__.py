"""What only a GPU can prove: the same programs on NVIDIA's driver and through remoting, on one machine, in turn."""

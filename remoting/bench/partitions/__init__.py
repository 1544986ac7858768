"""`./bench partitions`: shares of one software GPU, from the work that its tenants completed.

Work is the blocks that the engine of the software GPU executed, each of a known number of rounds.
Each tenant keeps the GPU busy, unless its row says otherwise.
"""

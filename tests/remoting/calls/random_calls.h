// Random calls of the exported functions with bad arguments.
//
// Thread safety: for one thread.
#pragma once
#include <cstdint>

// Execute calls in child processes. Return whether a child crashed.
bool random_calls(uint64_t seed, uint64_t calls);

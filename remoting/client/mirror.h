// Memory that the program and the GPU both touch: managed memory, tracked by page faults, and
// mapped host memory, compared with what the node last saw. Both agree at launches and at
// synchronisations, as the API demands of programs.
#pragma once
#include <cuda.h>

#include <atomic>

namespace busbar::client {

struct Context;
struct Stream;

extern std::atomic<int> g_mirrors;  // how many there are: none is the usual case

// Before work is submitted: what the program wrote goes to the node.
CUresult flush_mirrors(Stream& s);
// After a wait: what kernels wrote comes back.
CUresult fetch_mapped(Context* c);

// managed.cc
CUresult flush_managed(Stream& s);
// mapped.cc
CUresult flush_mapped(Stream& s);
void forget_mapped(const void* host);
bool is_mapped(CUdeviceptr p);  // host memory, as kernels reach it

inline bool mirrored() {
  return g_mirrors.load(std::memory_order_relaxed) > 0;
}

}  // namespace busbar::client

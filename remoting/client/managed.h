// Managed memory: one address for program and GPU.
//
// Each chunk belongs to the program or to the GPU. Submitting work sends the chunks that the
// program has written and removes its access; the next access faults (managed_pages.h), waits for
// the GPU and fetches. This suffices because CONCURRENT_MANAGED_ACCESS is 0: CUDA forbids access
// while the GPU works. A system call on a chunk of the GPU fails with EFAULT. A forked child has no
// managed memory, as with NVIDIA's driver.
//
// Thread safety: all functions may be called from any thread. One mutex, held while memory is
// fetched or sent; the thread that resolves page faults takes it.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace busbar::client {

struct Context;
struct Stream;

// Needs a device with an arena; otherwise returns CUDA_ERROR_NOT_SUPPORTED.
CUresult allocate_managed(Context* c, size_t bytes, unsigned flags, CUdeviceptr& out);
// Frees managed memory after all work of its context. Returns false if `p` is no managed memory.
bool free_managed(CUdeviceptr p, CUresult& result);
CUresult flush_managed(Stream& s);

}  // namespace busbar::client

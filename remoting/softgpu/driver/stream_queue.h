// Operations on streams.
//
// Thread safety: all functions take Context::mutex and callers must not hold it. wait_for and
// wait_for_context block.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "softgpu/driver/stream.h"

namespace softgpu {

struct NodeParams;

// Append an operation and return its position. Under capture make a node from `params` and return
// 0.
uint64_t enqueue(const StreamRef& s, std::function<CUresult()> run,
                 std::vector<StreamDependency> dependencies = {},
                 const NodeParams* params = nullptr);
// Wait until a position is complete. Return the sticky error of the context.
CUresult wait_for(const StreamRef& s, uint64_t position);
// Wait for all operations that are enqueued now. Return the sticky error of the context.
CUresult wait_for_context(Context* c);

}  // namespace softgpu

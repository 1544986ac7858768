// Copies between devices of two nodes.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace busbar::client {

// Copies through this process in pieces of 8 MiB: one is fetched while the previous one is sent.
// Waits for the stream before and for both nodes after the copy, so that all later work of any
// stream follows it.
CUresult copy_between_nodes(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

}  // namespace busbar::client

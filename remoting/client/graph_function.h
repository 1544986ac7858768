// The program's functions that graphs call. One number a function, for all launches of all graphs
// it is in.
#pragma once
#include <cuda.h>

#include <memory>

#include "client/graph.h"

namespace busbar::client {

// The function's number. What the graph's copies read travels again after it ran: it may have
// changed it.
uint64_t keep_graph_function(Link* link, CUhostFn f, void* data,
                             const std::shared_ptr<GraphModel>& model);
bool graph_function(uint64_t id, CUDA_HOST_NODE_PARAMS& out);

}  // namespace busbar::client

// Nodes that record events and wait for them.
#pragma once
#include <cuda.h>

namespace busbar::client {

// On a captured stream: a record or wait that other streams see, instead of an edge of the graph.
CUresult capture_external(CUstream stream, CUevent event, bool record);

}  // namespace busbar::client

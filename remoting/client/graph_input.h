// Input of graphs: bytes of host memory that the copies of a graph read.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include "client/graph_model.h"

namespace busbar::client {

struct Stream;

// Sends the content of a host copy to its staging buffer: in the order of stream `s`, or at once
// when `s` is null (while the graph waits for a host function). Blocks for the credit of the link.
CUresult send_graph_input(Link* link, uint32_t context, Stream* s, const HostCopy& copy);

}  // namespace busbar::client

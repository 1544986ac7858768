// Input of graphs: bytes of host memory that the copies of a graph read.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include "client/graph_model.h"

namespace busbar::client {

class Link;
struct Stream;

// Sends the content of a host copy to its staging buffer in the order of a stream. Blocks for the
// credit of the link.
CUresult send_graph_input(Link* link, uint32_t context, Stream& s, const HostCopy& copy);
// The same at once, while the graph waits for a host function. In records, because the credit may
// come back only when the function has ended.
CUresult send_graph_input_now(Link* link, const HostCopy& copy);

}  // namespace busbar::client

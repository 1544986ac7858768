// Staging buffers of the node, which stand for host memory in the copies of graphs.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include "client/graph_model.h"

namespace busbar::client {

class Call;

// Creates a staging buffer on the node of the call and adds the copy to the model. `node` is null
// for a capture. Sets the number of the buffer.
CUresult add_host_copy(Call& call, GraphModel& model, bool in, const Rows& rows, CUgraphNode node,
                       uint32_t& staging);

}  // namespace busbar::client

// Functions of the program that streams and graphs call.
//
// Thread safety: all functions may be called from any thread. One thread runs all host functions,
// one after the other, as NVIDIA's driver does.
#pragma once
#include <cuda.h>

#include <functional>
#include <memory>

#include "client/graph_model.h"
#include "client/stream.h"

namespace busbar::client {

// Connects a link to the thread of host functions. Call it before Link::open().
void start_host_functions(Link* link);

// Registers a function that a stream calls once. Returns the id for the host_function record.
uint64_t register_stream_function(Link* link, Stream* s, std::function<void()> f);

// Registers a function that a graph calls in each launch. Returns its id. After each call, the
// input of the graph's copies is sent again, because the function may have changed it.
uint64_t register_graph_function(Link* link, CUhostFn f, void* data,
                                 const std::shared_ptr<GraphModel>& model);
// Returns false for an unknown id.
bool find_graph_function(uint64_t id, CUDA_HOST_NODE_PARAMS& out);

// Waits for the work of a context if a host function is pending on `s` or another stream of the
// context: it may write to host memory that the caller is about to read.
CUresult wait_for_host_functions(Context* c, Stream* s);

}  // namespace busbar::client

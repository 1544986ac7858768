// What the client knows of a graph: the host memory that its copies read and write, and the program's functions in it.
// Everything else is the node's.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "client/rows.h"

namespace busbar::client {

class Link;
struct Context;

// One side of a copy that lies in the program's memory, and the node's buffer that stands for it.
struct HostCopy {
  uint32_t staging = 0;
  bool in = false;                                   // from the program to the node
  Rows rows;
  CUgraphNode node = nullptr;                        // null: made by a capture
};

struct GraphModel {
  std::mutex mutex;
  std::vector<HostCopy> copies;
  std::vector<CUevent> events;                       // recorded by every launch
};

std::shared_ptr<GraphModel> model_of(CUgraph g);     // made when it is not there
std::shared_ptr<GraphModel> model_of(CUgraphExec e);

// A buffer of the node for `rows`, which belongs to `model` from now on.
uint32_t add_host_copy(Link* link, GraphModel& model, bool in, const Rows& rows, CUgraphNode node = nullptr);

}  // namespace busbar::client

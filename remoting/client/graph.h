// What the client knows of a graph: the host memory that its copies read and write, and the
// program's functions in it. Everything else is the node's.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
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
  bool in = false;       // from the program to the node
  bool perhaps = false;  // a condition decides whether it runs
  Rows rows;
  CUgraphNode node = nullptr;  // null: made by a capture
};

// A node that runs graphs of its own or does not. The program reads the list of them where it lies.
struct Conditional {
  CUgraphNode node;
  CUDA_CONDITIONAL_NODE_PARAMS params;
  std::vector<CUgraph> bodies;
};

// Parameters as the program may read them: they stay where they are until the next question about
// the same node.
struct Shown {
  std::vector<uint8_t> bytes;
  std::vector<void*> pointers;
};

struct GraphModel {
  std::mutex mutex;
  std::map<CUgraphNode, Shown> shown;
  std::vector<HostCopy> copies;
  std::vector<std::shared_ptr<Conditional>> conditionals;
  std::vector<CUevent> events;  // recorded by every launch
};

std::shared_ptr<GraphModel> model_of(CUgraph g);  // made when it is not there
std::shared_ptr<GraphModel> model_of(CUgraphExec e);
std::shared_ptr<GraphModel> model_with(CUgraphNode n);  // of the graph that the node lies in
void set_model(CUgraph g, std::shared_ptr<GraphModel> model);

// A buffer of the node for `rows`, which belongs to `model` from now on.
uint32_t add_host_copy(Link* link, GraphModel& model, bool in, const Rows& rows,
                       CUgraphNode node = nullptr);

}  // namespace busbar::client

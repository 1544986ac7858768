// The client's part of a graph: host memory that its copies read and write, host functions, and
// bodies of conditional nodes. All else is kept by the node.
//
// Thread safety: all functions may be called from any thread. GraphModel::mutex guards the members
// of a model; the registry of models and the mutexes of user objects and links may be taken under
// it. merge_model() takes the mutexes of two models at once, deadlock-free.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "client/rows.h"
#include "client/user_object.h"

namespace busbar::client {

// The host side of a copy in a graph. The node uses a staging buffer in its place.
struct HostCopy {
  uint32_t staging = 0;      // number of the staging buffer
  bool in = false;           // true: from host memory to the node
  bool conditional = false;  // in the body of a conditional node: it may not run
  Rows rows;
  CUgraphNode node = nullptr;  // null: created by a capture
};

// A conditional node. CUDA lets the program read `bodies` in place, so it never moves.
struct Conditional {
  CUgraphNode node;
  CUDA_CONDITIONAL_NODE_PARAMS params;
  std::vector<CUgraph> bodies;
};

// Parameters of a node that the program reads in place, valid until the next query of the node.
struct NodeParams {
  std::vector<uint8_t> bytes;
  std::vector<void*> pointers;
};

struct GraphModel {
  std::mutex mutex;
  std::map<CUgraphNode, NodeParams> queried_params;
  std::vector<HostCopy> copies;
  std::vector<std::shared_ptr<Conditional>> conditionals;
  std::vector<CUevent> events;  // recorded by each launch
};

// Return the model of a graph; created on first use.
std::shared_ptr<GraphModel> model_of(CUgraph g);
std::shared_ptr<GraphModel> model_of(CUgraphExec e);
std::shared_ptr<GraphModel> model_of_node(CUgraphNode n);  // of the graph that owns the node
void set_model(CUgraph g, std::shared_ptr<GraphModel> model);

// Adds copies and events of `from` to `to`, or replaces those of `to`. Copies in the bodies of
// conditional nodes are included as they are now.
void merge_model(GraphModel& to, GraphModel& from, bool replace);

// The client's state of a graph that is being destroyed. The constructor removes it before the node
// destroys the graph, because the driver may then reuse the handle for another thread's graph.
class RemovedGraph {
 public:
  explicit RemovedGraph(const void* handle);
  // Ends the removal with the result of the node: releases the state on success, restores it on
  // failure. Returns `result`.
  CUresult finish(CUresult result);

 private:
  const void* handle_;
  UserObjects objects_;
  std::shared_ptr<GraphModel> model_;
};

}  // namespace busbar::client

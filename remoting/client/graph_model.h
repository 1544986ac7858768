// The client's part of a graph: host memory that its copies read and write, host functions, and the
// graphs inside its nodes. All else is kept by the node.
//
// Thread safety: all functions may be called from any thread. GraphModel::mutex is not held during
// a wait, because host functions of the graph need it. The mutexes of user objects and links may be
// taken under it.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client/graph_lifetime.h"
#include "client/graph_memory.h"
#include "client/rows.h"
#include "client/user_object.h"
#include "mutex.h"

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

// An event that each launch records.
struct GraphEvent {
  CUevent event;
  CUgraphNode node;
};

struct GraphContents {
  std::vector<HostCopy> copies;
  std::vector<GraphEvent> events;
  std::vector<std::shared_ptr<Conditional>> conditionals;
  std::map<CUgraphNode, CUgraph> children;  // the graphs of child graph nodes
  MemoryNodes memory;
};

struct GraphModel {
  explicit GraphModel(GraphContents all = {}) : contents(std::move(all)) {}
  Mutex mutex;
  GraphContents contents GUARDED_BY(mutex);
  std::map<CUgraphNode, NodeParams> queried_params GUARDED_BY(mutex);
  std::weak_ptr<GraphModel> exec GUARDED_BY(mutex);  // the newest executable graph of a graph
  bool frees_first GUARDED_BY(mutex) = false;        // of an executable graph: AUTO_FREE_ON_LAUNCH
  bool has_objects GUARDED_BY(mutex) = false;  // of an executable graph: launches are recorded
  Launches launches GUARDED_BY(mutex);
};

// Return the model of a graph; created on first use.
std::shared_ptr<GraphModel> model_of(CUgraph g);
std::shared_ptr<GraphModel> model_of(CUgraphExec e);
std::shared_ptr<GraphModel> model_of_node(CUgraphNode n);  // of the graph that owns the node
void set_model(CUgraph g, std::shared_ptr<GraphModel> model);

// Adds copies and events of `from` to `to`, or replaces those of `to`. Those of the graphs inside
// nodes are included as they are now, except events in the bodies of conditional nodes.
void merge_model(GraphModel& to, GraphModel& from, bool replace);
// Gives a clone of a graph its part: copies, events and user objects. The clones of child graphs
// get those of the originals.
void describe_clone(CUgraph from, CUgraph to);
// Gives an executable graph the user objects of a graph and of the graphs inside its nodes. Those
// that it had are released when its launches are complete.
void hold_user_objects(CUgraphExec e, CUgraph g);
// Return whether a graph allocates or frees memory. CUDA permits no clones of it, no use in a child
// graph node, and no removal of nodes and edges.
bool has_memory_nodes(CUgraph g);
bool has_memory_nodes(GraphModel& model);
// Removes what a destroyed node has added to the model of its graph.
void remove_node(GraphModel& model, CUgraphNode n);

// The client's state of graphs that are being destroyed. The constructors remove it before the node
// destroys the graphs, because the driver may then reuse the handles for another thread's graphs.
class RemovedGraphs {
 public:
  // A graph, with the graphs inside its nodes, or an executable graph.
  explicit RemovedGraphs(const void* handle) { remove(handle); }
  // The graphs inside a node of a graph.
  RemovedGraphs(GraphModel& model, CUgraphNode n) { remove_inside(model, n); }
  // Ends the removal with the result of the node: releases the state on success, restores it on
  // failure. Returns `result`.
  CUresult finish(CUresult result);

 private:
  struct State {
    const void* handle;
    UserObjects objects;
    std::shared_ptr<GraphModel> model;
  };
  void remove(const void* handle);
  void remove_inside(GraphModel& model, CUgraphNode n);
  std::vector<State> states_;
};

}  // namespace busbar::client

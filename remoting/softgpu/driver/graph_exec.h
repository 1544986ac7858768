// Executable graphs.
//
// Thread safety: GraphExec::mutex guards the steps, conditions and objects.
#pragma once
#include <cuda.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "softgpu/driver/graph.h"
#include "softgpu/driver/graph_memory.h"
#include "softgpu/driver/user_object.h"

namespace softgpu {

inline std::atomic<unsigned> g_last_exec_id{0};

struct GraphExec {
  struct Step {
    const GraphNode* from;
    NodeParams params;
    std::function<CUresult()> run;
    bool enabled = true;
  };
  std::mutex mutex;
  std::vector<Step> steps;  // in topological order
  unsigned long long flags = 0;
  unsigned id = ++g_last_exec_id;
  std::shared_ptr<HeldObjects> objects;
  std::vector<GraphState::Condition> conditions;
  std::shared_ptr<void> lifetime = std::make_shared<int>();
};

// Return the memory nodes of an executable graph. The caller holds GraphExec::mutex.
std::vector<MemoryNode> memory_nodes(const GraphExec& e);
// Make an executable graph with the nodes that a graph has now.
CUresult instantiate(const GraphState* g, unsigned long long flags, GraphExec*& out);
// Replace the steps by those of a graph with nodes of the same types in the same order.
CUresult update(GraphExec* e, const GraphState* g);

// Let the step of a child graph node run another graph with the same topology. The caller holds
// GraphExec::mutex.
CUresult replace_child(GraphExec::Step& step, GraphState* child);

}  // namespace softgpu

// Graphs: nodes with what they run, and captures that make them from calls on streams.
#pragma once
#include "softgpu/driver/state.h"

namespace softgpu {

struct GraphState;

// What a node was made from, so that it can be read back and changed.
struct NodeParams {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  struct Packed {
    std::vector<uint8_t> bytes;
    std::vector<void*> pointers;
  };
  std::shared_ptr<Packed> packed;  // what kernel.kernelParams points to
  CUDA_MEMCPY3D copy = {};
  CUDA_MEMSET_NODE_PARAMS fill = {};
  CUDA_HOST_NODE_PARAMS host = {};
  CUevent event = nullptr;
  GraphState* child = nullptr;
  std::vector<CUstreamBatchMemOpParams> words;
  CUDA_CONDITIONAL_NODE_PARAMS conditional = {};
  std::vector<GraphState*>
      bodies;  // what the condition may run; conditional.phGraph_out points to the node's own
};

// Something of the program's that lives as long as graphs that use it.
struct UserObject {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  unsigned references = 1;
};
void release_object(UserObject* o, unsigned count);

struct GraphNode {
  GraphState* graph = nullptr;
  NodeParams params;
  std::function<CUresult()> run;
  std::vector<GraphNode*> dependencies;
  unsigned id = 0;
};

struct GraphState {
  unsigned id = 0;
  std::vector<std::unique_ptr<GraphNode>> nodes;
  std::vector<UserObject*> objects;  // one for each reference that it has
  struct Condition {
    uint64_t handle;
    uint32_t value;
    bool assigned;
    std::shared_ptr<void> life;
  };                                              // lives in executable graphs, too
  std::vector<Condition> conditions;              // assigned: at the start of every launch
  std::map<const GraphNode*, GraphNode*> copies;  // of a clone: the original's node to its own
};

struct GraphExec {
  struct Step {
    const GraphNode* from;
    NodeParams params;
    std::function<CUresult()> run;
    bool enabled = true;
  };
  std::mutex mutex;
  std::vector<Step> steps;  // in an order that respects the dependencies
  unsigned long long flags = 0;
  std::vector<UserObject*> objects;
  std::vector<GraphState::Condition> conditions;
};

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  GraphState* graph = nullptr;
  bool given = false, invalid = false;  // given: the program's own graph
  unsigned long long id = 0;
  StreamRef origin;
  std::vector<StreamRef> streams;  // the origin and those that joined it
};

GraphState* make_graph();
void destroy_graph(GraphState* g);
GraphNode* add_node(GraphState* g, NodeParams params, std::function<CUresult()> run,
                    std::vector<GraphNode*> dependencies);
GraphState* clone_graph(const GraphState* g);
bool topological(const GraphState* g, std::vector<GraphNode*>& order);  // false: a cycle
std::function<CUresult()> child_runner(GraphState* g);

// What a node of these parameters runs; the parameters are completed (a kernel's are packed).
// Checks what the call itself would check.
CUresult node_runner(Context* c, NodeParams& params, std::function<CUresult()>& run);
CUresult kernel_runner(Context* c, NodeParams& params, bool cooperative, bool keep,
                       std::function<CUresult()>& run);  // keep: the parameters outlive the call
CUresult copy_runner(const CUDA_MEMCPY3D& copy, std::function<CUresult()>& run);
CUresult words_runner(Context* c, const std::vector<CUstreamBatchMemOpParams>& words,
                      std::function<CUresult()>& run);
// Runs the graphs of a conditional node as they are now.
std::function<CUresult()> conditional_runner(const NodeParams& params);
bool has_conditional(const GraphState* g);
CUresult add_conditional(CUgraphNode* out, GraphState* g, const std::vector<GraphNode*>& after,
                         CUDA_CONDITIONAL_NODE_PARAMS& params);
CUresult fill_runner(const CUDA_MEMSET_NODE_PARAMS& fill, std::function<CUresult()>& run);

// Under capture nothing runs: the call becomes a node at the end of the stream. Call with
// Context::mutex held.
void capture_call(StreamState& s, NodeParams params, std::function<CUresult()> run);
void invalidate(Capture& capture);
// A call that would wait for, or disturb, work that is being captured. CUDA_SUCCESS when no capture
// forbids it.
CUresult unsafe_in_capture();

CUresult capture_wait(Context* c, const StreamRef& s,
                      EventState* e);  // NOT_READY: no capture is concerned

}  // namespace softgpu

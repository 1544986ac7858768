// CUDA entry points: executable graphs.
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/driver/batch_mem_op.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/context_lifetime.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/graph_exec.h"
#include "softgpu/driver/graph_launch.h"
#include "softgpu/driver/node_runner.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph h, unsigned long long flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  REQUIRE_LIVE(GraphState, g, h);
  if (CUresult r = unsafe_in_capture()) return r;
  if (!out || flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    return out ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  GraphExec* e = nullptr;
  CUresult r = instantiate(g, flags, e);
  *out = (CUgraphExec)e;
  return r;
}
API CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph h,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = cuGraphInstantiateWithFlags(
      out, h, p->flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  p->hErrNode_out = nullptr;
  p->result_out = r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return r;
}
// Launches in progress have copies of the steps, and hold the objects.
API CUresult cuGraphExecDestroy(CUgraphExec h) {
  REQUIRE_LIVE(GraphExec, e, h);
  remove_handle(e);
  delete e;
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecGetFlags(CUgraphExec h, cuuint64_t* flags) {
  REQUIRE_LIVE(GraphExec, e, h);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = e->flags;
  return CUDA_SUCCESS;
}
API CUresult cuGraphExecGetId(CUgraphExec h, unsigned* id) {
  REQUIRE_LIVE(GraphExec, e, h);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = e->id;
  return CUDA_SUCCESS;
}
API CUresult cuGraphUpload(CUgraphExec h, CUstream hs) {
  REQUIRE_LIVE(GraphExec, e, h);
  (void)e;
  REQUIRE_CURRENT_CONTEXT(c);
  StreamRef s;
  return stream_for(hs, c, s);
}

// Allocates and frees the memory of a launch. It cannot be captured.
static CUresult launch_memory(GraphExec* e, bool captured) {
  std::lock_guard lock(e->mutex);
  std::vector<MemoryNode> nodes = memory_nodes(*e);
  if (nodes.empty()) return CUDA_SUCCESS;
  if (captured) return CUDA_ERROR_NOT_SUPPORTED;
  return launch_memory_nodes(nodes, e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
}

API CUresult cuGraphLaunch(CUgraphExec h, CUstream hs) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_LIVE(GraphExec, e, h);
  REQUIRE_WORK_STREAM(s, hs, c);
  if (CUresult r = launch_memory(e, is_captured(s))) return r;
  GraphLaunch launch(e);
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  uint64_t at = enqueue(
      s,
      [runs = std::move(launch.runs), objects = std::move(launch.objects)] {
        for (auto& r : runs)
          if (CUresult error = r()) return error;
        return CUDA_SUCCESS;
      },
      std::move(launch.dependencies), &params);
  std::lock_guard lock(c->mutex);
  if (at)
    for (auto* event : launch.recorded) {
      event->recorded = true;
      event->stream = s;
      event->position = at;
      event->nanoseconds = launch.stamp;
    }
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecUpdate(CUgraphExec h, CUgraph hg, CUgraphExecUpdateResultInfo* info) {
  REQUIRE_LIVE(GraphExec, e, h);
  REQUIRE_LIVE(GraphState, g, hg);
  CUresult r = update(e, g);
  if (r != CUDA_ERROR_INVALID_VALUE && info)
    *info = {r ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED : CU_GRAPH_EXEC_UPDATE_SUCCESS,
             nullptr, nullptr};
  return r;
}

static GraphExec::Step* step_of(GraphExec* e, CUgraphNode n) {
  for (auto& s : e->steps)
    if (s.from == (GraphNode*)n) return &s;
  return nullptr;
}

API CUresult cuGraphNodeSetEnabled(CUgraphExec h, CUgraphNode n, unsigned on) {
  REQUIRE_LIVE(GraphExec, e, h);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  if (!s) return CUDA_ERROR_INVALID_VALUE;
  s->enabled = on != 0;
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetEnabled(CUgraphExec h, CUgraphNode n, unsigned* on) {
  REQUIRE_LIVE(GraphExec, e, h);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  if (!s || !on) return CUDA_ERROR_INVALID_VALUE;
  *on = s->enabled;
  return CUDA_SUCCESS;
}

static CUresult change(GraphExec* e, CUgraphNode n, NodeParams params) {
  REQUIRE_CURRENT_CONTEXT(c);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  if (!s || s->params.type != params.type) return CUDA_ERROR_INVALID_VALUE;
  params.attributes = s->params.attributes;
  std::function<CUresult()> run;
  if (CUresult r = node_runner(c, params, run)) return r;
  s->params = std::move(params);
  s->run = std::move(run);
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec h, CUgraphNode n,
                                            const CUDA_KERNEL_NODE_PARAMS* p) {
  REQUIRE_LIVE(GraphExec, e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_KERNEL;
  q.kernel = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec h, CUgraphNode n, const CUDA_MEMCPY3D* p,
                                            CUcontext) {
  REQUIRE_LIVE(GraphExec, e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  q.copy = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec h, CUgraphNode n,
                                            const CUDA_MEMSET_NODE_PARAMS* p, CUcontext ctx) {
  REQUIRE_LIVE(GraphExec, e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (ctx && !is_usable(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMSET;
  q.fill = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecHostNodeSetParams(CUgraphExec h, CUgraphNode n,
                                          const CUDA_HOST_NODE_PARAMS* p) {
  REQUIRE_LIVE(GraphExec, e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_HOST;
  q.host = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec h, CUgraphNode n,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  REQUIRE_LIVE(GraphExec, e, h);
  NodeParams q;
  CUresult r = mem_op_params(p, q);
  return r ? r : change(e, n, q);
}
API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec h, CUgraphNode n, CUgraph hchild) {
  REQUIRE_LIVE(GraphExec, e, h);
  REQUIRE_LIVE(GraphState, child, hchild);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  return s ? replace_child(*s, child) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec h, CUgraphNode n, CUevent event) {
  REQUIRE_LIVE(GraphExec, e, h);
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  q.event = event;
  return change(e, n, q);
}
API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec h, CUgraphNode n, CUevent event) {
  REQUIRE_LIVE(GraphExec, e, h);
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  q.event = event;
  return change(e, n, q);
}

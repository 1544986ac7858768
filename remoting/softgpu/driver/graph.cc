// Graph objects: nodes and edges, clones, executable graphs.
#include "softgpu/driver/graph.h"

#include <algorithm>

#include "softgpu/device/conditions.h"

namespace softgpu {

static unsigned g_graph_ids = 1;

GraphState* make_graph() {
  auto* g = new GraphState;
  g->id = g_graph_ids++;
  remember(g);
  return g;
}

static std::mutex g_objects_mutex;

void release_object(UserObject* o, unsigned count) {
  {
    std::lock_guard lock(g_objects_mutex);
    o->references -= std::min(count, o->references);
    if (o->references) return;
  }
  forget(o);
  o->destroy(o->pointer);
  delete o;
}

static std::vector<UserObject*> shared_objects(const GraphState* g) {
  std::lock_guard lock(g_objects_mutex);
  for (auto* o : g->objects) ++o->references;
  return g->objects;
}

void destroy_graph(GraphState* g) {
  forget(g);
  for (auto* o : g->objects) release_object(o, 1);
  for (auto& n : g->nodes) {
    forget(n.get());
    if (n->params.child) destroy_graph(n->params.child);
    for (auto* b : n->params.bodies) destroy_graph(b);
  }
  delete g;
}

GraphNode* add_node(GraphState* g, NodeParams params, std::function<CUresult()> run,
                    std::vector<GraphNode*> dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->graph = g;
  node->params = std::move(params);
  node->run = std::move(run);
  node->dependencies = std::move(dependencies);
  node->id = (unsigned)g->nodes.size();
  remember(node.get());
  g->nodes.push_back(std::move(node));
  return g->nodes.back().get();
}

GraphState* clone_graph(const GraphState* g) {
  GraphState* copy = make_graph();
  copy->objects = shared_objects(g);
  for (auto& n : g->nodes) {
    NodeParams params = n->params;
    auto run = n->run;
    if (params.child) {
      params.child = clone_graph(params.child);
      run = child_runner(params.child);
    }
    copy->copies[n.get()] = add_node(copy, std::move(params), std::move(run), {});
  }
  for (auto& n : g->nodes)
    for (auto* d : n->dependencies) copy->copies[n.get()]->dependencies.push_back(copy->copies[d]);
  return copy;
}

bool topological(const GraphState* g, std::vector<GraphNode*>& order) {
  std::set<const GraphNode*> done;
  while (order.size() < g->nodes.size()) {
    size_t before = order.size();
    for (auto& n : g->nodes) {
      if (done.count(n.get()) || !std::all_of(n->dependencies.begin(), n->dependencies.end(),
                                              [&](auto* d) { return done.count(d) > 0; }))
        continue;
      done.insert(n.get());
      order.push_back(n.get());
    }
    if (order.size() == before) return false;
  }
  return true;
}

static std::function<CUresult()> runner_of(const GraphNode* n) {
  return n->params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? conditional_runner(n->params) : n->run;
}

std::function<CUresult()> child_runner(GraphState* g) {
  std::vector<GraphNode*> order;
  if (!topological(g, order))
    return [] {
      return CUDA_ERROR_INVALID_VALUE;
    };
  std::vector<std::function<CUresult()>> runs;
  for (auto* n : order)
    if (auto run = runner_of(n)) runs.push_back(run);
  return [runs] {
    for (auto& r : runs)
      if (CUresult e = r()) return e;
    return CUDA_SUCCESS;
  };
}

static void gather_conditions(const GraphState* g, std::vector<GraphState::Condition>& out) {
  out.insert(out.end(), g->conditions.begin(), g->conditions.end());
  for (auto& n : g->nodes)
    for (auto* b : n->params.bodies) gather_conditions(b, out);
}

static CUresult instantiate(GraphState* g, unsigned long long flags, GraphExec*& out) {
  std::vector<GraphNode*> order;
  if (!topological(g, order)) return CUDA_ERROR_INVALID_VALUE;
  auto* e = new GraphExec;
  e->flags = flags;
  e->objects = shared_objects(g);
  gather_conditions(g, e->conditions);
  for (auto* n : order) e->steps.push_back({n, n->params, runner_of(n), true});
  remember(e);
  out = e;
  return CUDA_SUCCESS;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r
#define GRAPH(g, h)                                 \
  auto* g = (GraphState*)(h);                       \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  if (!g || !known(g)) return CUDA_ERROR_INVALID_VALUE
#define NODE(n, h)                                  \
  auto* n = (GraphNode*)(h);                        \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  if (!n || !known(n)) return CUDA_ERROR_INVALID_VALUE
#define EXEC(e, h)                                  \
  auto* e = (GraphExec*)(h);                        \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  if (!e || !known(e)) return CUDA_ERROR_INVALID_VALUE

API CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  CURRENT(c);
  (void)c;
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUgraph)make_graph();
  return CUDA_SUCCESS;
}
API CUresult cuGraphDestroy(CUgraph h) {
  GRAPH(g, h);
  destroy_graph(g);
  return CUDA_SUCCESS;
}
API CUresult cuGraphClone(CUgraph* out, CUgraph h) {
  GRAPH(g, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (has_conditional(g)) return CUDA_ERROR_NOT_SUPPORTED;
  *out = (CUgraph)clone_graph(g);
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph h) {
  GRAPH(g, h);
  auto it = g->copies.find((GraphNode*)original);
  if (!out || it == g->copies.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUgraphNode)it->second;
  return CUDA_SUCCESS;
}

// Lists: without room only their length is told; what is longer than the room is cut and what is
// left over is null.
template <typename T>
static CUresult list(const std::vector<T>& all, T* out, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (out)
    for (size_t i = 0; i < *count; ++i) out[i] = i < all.size() ? all[i] : T{};
  *count = out ? std::min(*count, all.size()) : all.size();
  return CUDA_SUCCESS;
}

API CUresult cuGraphGetNodes(CUgraph h, CUgraphNode* out, size_t* count) {
  GRAPH(g, h);
  std::vector<CUgraphNode> all;
  for (auto& n : g->nodes) all.push_back((CUgraphNode)n.get());
  return list(all, out, count);
}

API CUresult cuGraphGetRootNodes(CUgraph h, CUgraphNode* out, size_t* count) {
  GRAPH(g, h);
  std::vector<CUgraphNode> all;
  for (auto& n : g->nodes)
    if (n->dependencies.empty()) all.push_back((CUgraphNode)n.get());
  return list(all, out, count);
}

API CUresult cuGraphGetEdges(CUgraph h, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                             size_t* count) {
  GRAPH(g, h);
  std::vector<CUgraphNode> froms, tos;
  for (auto& n : g->nodes)
    for (auto* d : n->dependencies) {
      froms.push_back((CUgraphNode)d);
      tos.push_back((CUgraphNode)n.get());
    }
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  size_t room = *count;
  if (data)
    for (size_t i = 0; i < room; ++i) data[i] = {};
  if (CUresult r = list(froms, from, &room)) return r;
  return list(tos, to, count);
}

API CUresult cuGraphNodeGetDependencies(CUgraphNode h, CUgraphNode* out, CUgraphEdgeData* data,
                                        size_t* count) {
  NODE(n, h);
  if (data && count)
    for (size_t i = 0; i < *count; ++i) data[i] = {};
  return list(
      std::vector<CUgraphNode>((CUgraphNode*)n->dependencies.data(),
                               (CUgraphNode*)n->dependencies.data() + n->dependencies.size()),
      out, count);
}

API CUresult cuGraphNodeGetDependentNodes(CUgraphNode h, CUgraphNode* out, CUgraphEdgeData* data,
                                          size_t* count) {
  NODE(n, h);
  if (data && count)
    for (size_t i = 0; i < *count; ++i) data[i] = {};
  std::vector<CUgraphNode> all;
  for (auto& other : n->graph->nodes)
    if (std::count(other->dependencies.begin(), other->dependencies.end(), n))
      all.push_back((CUgraphNode)other.get());
  return list(all, out, count);
}

API CUresult cuGraphAddDependencies(CUgraph h, const CUgraphNode* from, const CUgraphNode* to,
                                    const CUgraphEdgeData*, size_t count) {
  GRAPH(g, h);
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    auto *a = (GraphNode*)from[i], *b = (GraphNode*)to[i];
    if (!known(a) || !known(b) || a->graph != g || b->graph != g || a == b ||
        std::count(b->dependencies.begin(), b->dependencies.end(), a))
      return CUDA_ERROR_INVALID_VALUE;
    b->dependencies.push_back(a);
  }
  return CUDA_SUCCESS;
}

API CUresult cuGraphRemoveDependencies(CUgraph h, const CUgraphNode* from, const CUgraphNode* to,
                                       const CUgraphEdgeData*, size_t count) {
  GRAPH(g, h);
  (void)g;
  for (size_t i = 0; i < count; ++i) {
    NODE(b, to[i]);
    if (!std::erase(b->dependencies, (GraphNode*)from[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

API CUresult cuGraphDestroyNode(CUgraphNode h) {
  NODE(n, h);
  GraphState* g = n->graph;
  for (auto& other : g->nodes) std::erase(other->dependencies, n);
  forget(n);
  if (n->params.child) destroy_graph(n->params.child);
  for (auto* b : n->params.bodies) destroy_graph(b);
  std::erase_if(g->nodes, [&](auto& p) { return p.get() == n; });
  return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetType(CUgraphNode h, CUgraphNodeType* type) {
  NODE(n, h);
  if (!type) return CUDA_ERROR_INVALID_VALUE;
  *type = n->params.type;
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetContainingGraph(CUgraphNode h, CUgraph* g) {
  NODE(n, h);
  if (!g) return CUDA_ERROR_INVALID_VALUE;
  *g = (CUgraph)n->graph;
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetLocalId(CUgraphNode h, unsigned* id) {
  NODE(n, h);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = n->id;
  return CUDA_SUCCESS;
}
API CUresult cuGraphGetId(CUgraph h, unsigned* id) {
  GRAPH(g, h);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = g->id;
  return CUDA_SUCCESS;
}

// ---- executable graphs ----
#undef cuGraphInstantiate
API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph h, unsigned long long flags) {
  CURRENT(c);
  (void)c;
  GRAPH(g, h);
  if (!out || flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    return out ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  GraphExec* e = nullptr;
  CUresult r = instantiate(g, flags, e);
  *out = (CUgraphExec)e;
  return r;
}
API CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph h, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(out, h, flags);
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
API CUresult
cuGraphExecDestroy(CUgraphExec h) {  // launches that still run have their own copy of the steps
  EXEC(e, h);
  forget(e);
  for (auto* o : e->objects) release_object(o, 1);
  delete e;
  return CUDA_SUCCESS;
}

API CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy,
                                unsigned references, unsigned flags) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto* o = new UserObject{pointer, destroy, references};
  remember(o);
  *out = (CUuserObject)o;
  return CUDA_SUCCESS;
}

#define OBJECT(o, h)                                \
  auto* o = (UserObject*)(h);                       \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  if (!o || !known(o)) return CUDA_ERROR_INVALID_VALUE

API CUresult cuUserObjectRetain(CUuserObject h, unsigned count) {
  OBJECT(o, h);
  std::lock_guard lock(g_objects_mutex);
  o->references += count;
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuUserObjectRelease(CUuserObject h, unsigned count) {
  OBJECT(o, h);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  release_object(o, count);
  return CUDA_SUCCESS;
}

API CUresult cuGraphRetainUserObject(CUgraph hg, CUuserObject h, unsigned count, unsigned flags) {
  GRAPH(g, hg);
  OBJECT(o, h);
  if (!count || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_objects_mutex);
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) o->references += count;
  g->objects.insert(g->objects.end(), count, o);
  return CUDA_SUCCESS;
}

API CUresult cuGraphReleaseUserObject(CUgraph hg, CUuserObject h, unsigned count) {
  GRAPH(g, hg);
  OBJECT(o, h);
  unsigned released = 0;
  while (released < count) {
    auto it = std::find(g->objects.begin(), g->objects.end(), o);
    if (it == g->objects.end()) break;
    g->objects.erase(it);
    ++released;
  }
  if (released) release_object(o, released);
  return released == count && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGraphExecGetFlags(CUgraphExec h, cuuint64_t* flags) {
  EXEC(e, h);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = e->flags;
  return CUDA_SUCCESS;
}
API CUresult cuGraphUpload(CUgraphExec h, CUstream hs) {
  EXEC(e, h);
  (void)e;
  CURRENT(c);
  StreamRef s;
  return stream_for(hs, c, s);
}

API CUresult cuGraphLaunch(CUgraphExec h, CUstream hs) {
  CURRENT(c);
  EXEC(e, h);
  StreamRef s;
  if (CUresult r = stream_for(hs, c, s)) return r;
  std::vector<std::function<CUresult()>>
      runs;  // as they are now: later changes are for later launches
  std::vector<EventState*> recorded;
  std::vector<StreamState::Gate> gates;
  auto stamp = std::make_shared<uint64_t>(0);
  {
    std::lock_guard lock(e->mutex);
    for (auto& c : e->conditions)
      if (c.assigned)
        runs.push_back([c] {
          set_condition(c.handle, c.value);
          return CUDA_SUCCESS;
        });
    for (auto& step : e->steps) {
      if (!step.enabled) continue;
      if (step.run) runs.push_back(step.run);
      auto* event = (EventState*)step.params.event;
      if (!event || !known(event)) continue;
      if (step.params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
        recorded.push_back(event);
        runs.push_back([stamp] {
          *stamp = now();
          return CUDA_SUCCESS;
        });
      } else if (event->recorded)
        gates.push_back({event->stream, event->position});
    }
  }
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  uint64_t at = enqueue(
      s,
      [runs] {
        for (auto& r : runs)
          if (CUresult error = r()) return error;
        return CUDA_SUCCESS;
      },
      std::move(gates), &params);
  std::lock_guard lock(c->mutex);
  if (at)
    for (auto* event : recorded) {
      event->recorded = true;
      event->stream = s;
      event->position = at;
      event->nanoseconds = stamp;
    }
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecUpdate(CUgraphExec h, CUgraph hg, CUgraphExecUpdateResultInfo* info) {
  EXEC(e, h);
  GRAPH(g, hg);
  std::vector<GraphNode*> order;
  if (!topological(g, order)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(e->mutex);
  bool same = order.size() == e->steps.size();
  for (size_t i = 0; same && i < order.size(); ++i)
    same = order[i]->params.type == e->steps[i].params.type;
  if (info)
    *info = {same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
             nullptr, nullptr};
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (size_t i = 0; i < order.size(); ++i)
    e->steps[i] = {order[i], order[i]->params, runner_of(order[i]), e->steps[i].enabled};
  e->conditions.clear();
  gather_conditions(g, e->conditions);
  return CUDA_SUCCESS;
}

static GraphExec::Step* step_of(GraphExec* e, CUgraphNode n) {
  for (auto& s : e->steps)
    if (s.from == (GraphNode*)n) return &s;
  return nullptr;
}

API CUresult cuGraphNodeSetEnabled(CUgraphExec h, CUgraphNode n, unsigned on) {
  EXEC(e, h);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  if (!s) return CUDA_ERROR_INVALID_VALUE;
  s->enabled = on != 0;
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetEnabled(CUgraphExec h, CUgraphNode n, unsigned* on) {
  EXEC(e, h);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  if (!s || !on) return CUDA_ERROR_INVALID_VALUE;
  *on = s->enabled;
  return CUDA_SUCCESS;
}

static CUresult change(GraphExec* e, CUgraphNode n, NodeParams params) {
  CURRENT(c);
  std::lock_guard lock(e->mutex);
  auto* s = step_of(e, n);
  if (!s || s->params.type != params.type) return CUDA_ERROR_INVALID_VALUE;
  std::function<CUresult()> run;
  if (CUresult r = node_runner(c, params, run)) return r;
  s->params = std::move(params);
  s->run = std::move(run);
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec h, CUgraphNode n,
                                            const CUDA_KERNEL_NODE_PARAMS* p) {
  EXEC(e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_KERNEL;
  q.kernel = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec h, CUgraphNode n, const CUDA_MEMCPY3D* p,
                                            CUcontext) {
  EXEC(e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  q.copy = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec h, CUgraphNode n,
                                            const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  EXEC(e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_MEMSET;
  q.fill = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecHostNodeSetParams(CUgraphExec h, CUgraphNode n,
                                          const CUDA_HOST_NODE_PARAMS* p) {
  EXEC(e, h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_HOST;
  q.host = *p;
  return change(e, n, q);
}
API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec h, CUgraphNode n,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  EXEC(e, h);
  if (!p || p->count > 256 || p->flags || (p->count && !p->paramArray))
    return CUDA_ERROR_INVALID_VALUE;
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  q.words.assign(p->paramArray, p->paramArray + p->count);
  return change(e, n, q);
}
API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec h, CUgraphNode n, CUevent event) {
  EXEC(e, h);
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  q.event = event;
  return change(e, n, q);
}
API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec h, CUgraphNode n, CUevent event) {
  EXEC(e, h);
  NodeParams q;
  q.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  q.event = event;
  return change(e, n, q);
}

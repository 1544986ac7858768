#include "server/capture.h"

#include <utility>

#include "server/handlers.h"
#include "server/pipeline.h"
#include "server/reply.h"

namespace busbar::server {

CUresult enter_capture(Session& s, StreamState& st) {
  if (!st.blocking || st.legacy || st.uncaptured) return CUDA_SUCCESS;
  CUstream own = nullptr;
  if (CUresult r = s.cu.cuStreamCreateWithPriority(&own, CU_STREAM_NON_BLOCKING, st.priority))
    return r;
  st.uncaptured = std::exchange(st.handle, own);
  return CUDA_SUCCESS;
}

namespace {
// The stream stands for itself again.
void restore(Session& s, StreamState& st) {
  CUstream own = std::exchange(st.uncaptured, nullptr);
  if (own) s.cu.cuStreamDestroy(std::exchange(st.handle, own));
}

// Of a capture of this stream, which ends without a graph.
void forget_captured_graph(Session& s, StreamState& st) {
  auto graph = (uint64_t)std::exchange(st.captured_graph, nullptr);
  if (graph && st.captures_new_graph)
    s.objects.remove(ObjectKind::graph, graph);
  else if (graph)
    s.objects.set_owner(ObjectKind::graph, graph, 0);
}
}  // namespace

void leave_capture(Session& s, StreamState& st) {
  bool is_new = st.captures_new_graph;
  CUgraph g = nullptr;
  forget_captured_graph(s, st);
  if (st.began_capture && s.cu.cuStreamEndCapture && !s.cu.cuStreamEndCapture(st.handle, &g))
    if (g && is_new) s.cu.cuGraphDestroy(g);
  restore(s, st);
}

void update_capturing(Session& s, StreamState& st) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!st.legacy && s.cu.cuStreamIsCapturing) s.cu.cuStreamIsCapturing(st.handle, &status);
  st.capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
  if (!st.capturing) restore(s, st);
}

CUresult update_captures(Session& s) {
  CUresult error = CUDA_SUCCESS;
  s.active_captures = 0;
  for (auto& [id, st] : s.streams) {
    if (st.capturing) {
      s.use_context(st.context);
      update_capturing(s, st);
      if (!st.capturing && !error) error = st.capture_error;
    }
    if (!st.capturing) st.began_capture = false;
    if (st.began_capture) ++s.active_captures;
  }
  return error;
}

namespace {

// While the capture appends nodes to its graph, that must not be destroyed.
void own_captured_graph(Session& s, StreamState& st, CUgraph given) {
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  CUgraph graph = given;
  st.captures_new_graph = !given;
  if (!graph && s.cu.cuStreamGetCaptureInfo)
    s.cu.cuStreamGetCaptureInfo(st.handle, &status, &id, &graph, &nodes, &edges, &count);
  if (!graph || s.objects.owner(ObjectKind::graph, (uint64_t)graph)) return;
  st.captured_graph = graph;
  s.objects.add(ObjectKind::graph, (uint64_t)graph);
  s.objects.set_owner(ObjectKind::graph, (uint64_t)graph, (uint64_t)st.handle);
}

bool known_nodes(const Session& s, const std::vector<CUgraphNode>& nodes) {
  for (auto n : nodes)
    if (!s.objects.contains(ObjectKind::node, (uint64_t)n)) return false;
  return true;
}

struct CaptureStart {
  CUgraph graph;  // null: a new one
  std::vector<CUgraphNode> dependencies;
  std::vector<CUgraphEdgeData> edges;
};

bool read_capture_start(const Session& s, wire::Decoder& in, CaptureStart& start) {
  start.graph = in.get<CUgraph>();
  uint32_t count = in.get<uint32_t>(), with_edges = in.get<uint32_t>();
  if (!in.elements(start.dependencies, count)) return false;
  if (with_edges && !in.elements(start.edges, count)) return false;
  if (start.graph && !s.objects.contains(ObjectKind::graph, (uint64_t)start.graph)) return false;
  return known_nodes(s, start.dependencies);
}

CUresult start_capture(Session& s, StreamState& st, const CaptureStart& start) {
  if (st.legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (CUresult r = enter_capture(s, st)) return r;
  if (!start.graph)
    return s.cu.cuStreamBeginCapture
               ? s.cu.cuStreamBeginCapture(st.handle, CU_STREAM_CAPTURE_MODE_RELAXED)
               : CUDA_ERROR_NOT_SUPPORTED;
  if (!s.cu.cuStreamBeginCaptureToGraph) return CUDA_ERROR_NOT_SUPPORTED;
  return s.cu.cuStreamBeginCaptureToGraph(
      st.handle, start.graph, start.dependencies.empty() ? nullptr : start.dependencies.data(),
      start.edges.empty() ? nullptr : start.edges.data(), start.dependencies.size(),
      CU_STREAM_CAPTURE_MODE_RELAXED);
}

}  // namespace

// graph (0: a new one), number of dependencies, whether edges follow, dependencies, edges
Outcome handlers::begin_capture(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  CaptureStart start;
  if (!read_capture_start(s, in, start)) {
    s.reply(reply, CUDA_ERROR_INVALID_VALUE);
    return Outcome::done;
  }
  p.fences.record_last(st);  // nothing tells the end of earlier work while the stream is captured
  CUresult error = start_capture(s, st, start);
  if (!error) {
    st.capturing = st.began_capture = true;
    st.capture_error = CUDA_SUCCESS;
    ++s.active_captures;
    own_captured_graph(s, st, start.graph);
  } else if (!st.capturing) {
    restore(s, st);
  }
  s.reply(reply, error);
  return Outcome::done;
}

// whether the capture is invalid, whether it goes into a given graph -> the graph
Outcome handlers::end_capture(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  bool invalid = in.get<uint32_t>() != 0, given = in.get<uint32_t>() != 0;
  CUgraph g = nullptr;
  CUresult error =
      s.cu.cuStreamEndCapture ? s.cu.cuStreamEndCapture(st.handle, &g) : CUDA_ERROR_NOT_SUPPORTED;
  CUresult of_capture = update_captures(s);
  if (!error) error = of_capture;
  s.use_context(st.context);
  if (g == st.captured_graph && !error && !invalid) st.captures_new_graph = false;  // it stays
  if (!st.capturing) forget_captured_graph(s, st);
  if (g && (invalid || error) && !given) {
    s.cu.cuGraphDestroy(g);
    g = nullptr;
  }
  if (g) s.objects.add(ObjectKind::graph, (uint64_t)g);
  std::string out;
  append(out, g);
  s.reply(reply, error, out);
  return Outcome::done;
}

// -> graph, number of nodes, the nodes on which the next call depends
Outcome handlers::capture_info(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  uint64_t reply = r.decoder().get<uint64_t>(), count = 0;
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph g = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  CUresult error =
      s.cu.cuStreamGetCaptureInfo
          ? s.cu.cuStreamGetCaptureInfo(st.handle, &status, &id, &g, &nodes, &edges, &count)
          : CUDA_ERROR_NOT_SUPPORTED;
  std::string out;
  append(out, g);
  append(out, count);
  if (g) s.objects.add(ObjectKind::graph, (uint64_t)g);
  for (uint64_t i = 0; !error && i < count; ++i) {
    s.objects.add(ObjectKind::node, (uint64_t)nodes[i], (uint64_t)g);
    append(out, nodes[i]);
  }
  s.reply(reply, error, out);
  return Outcome::done;
}

// flags, number of dependencies, dependencies
Outcome handlers::update_capture(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  uint32_t flags = in.get<uint32_t>(), count = in.get<uint32_t>();
  std::vector<CUgraphNode> nodes;
  CUresult error = CUDA_ERROR_NOT_SUPPORTED;
  if (!in.elements(nodes, count) || !known_nodes(s, nodes))
    error = CUDA_ERROR_INVALID_VALUE;
  else if (s.cu.cuStreamUpdateCaptureDependencies)
    error = s.cu.cuStreamUpdateCaptureDependencies(st.handle, nodes.data(), nullptr, count, flags);
  s.reply(reply, error);
  return Outcome::done;
}

}  // namespace busbar::server

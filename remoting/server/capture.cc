// Capture on the node: always RELAXED, since the client has already decided what is allowed.
#include "server/executor.h"

namespace busbar::server {

namespace {
CUstreamCaptureStatus status_of(Session& s, const StreamState& st) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!st.legacy && s.cu.cuStreamIsCapturing) s.cu.cuStreamIsCapturing(st.handle, &status);
  return status;
}
}  // namespace

// A stream joins a capture by waiting for one of its events, and leaves it when it ends.
void Executor::follow_capture(StreamState& st) {
  st.capturing = status_of(s_, st) != CU_STREAM_CAPTURE_STATUS_NONE;
}

// graph (0: a new one), dependencies, whether they have edges
void Executor::begin_capture(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  auto g = in.get<CUgraph>();
  uint32_t count = in.get<uint32_t>(), with_edges = in.get<uint32_t>();
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> edges;
  if (!in.elements(nodes, count) || (with_edges && !in.elements(edges, count)))
    return s_.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (g && !s_.objects.known(ObjectKind::graph, (uint64_t)g))
    return s_.reply(reply, CUDA_ERROR_INVALID_VALUE);
  for (auto n : nodes)
    if (!s_.objects.known(ObjectKind::node, (uint64_t)n))
      return s_.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult error = CUDA_ERROR_NOT_SUPPORTED;
  if (g && s_.cu.cuStreamBeginCaptureToGraph)
    error = s_.cu.cuStreamBeginCaptureToGraph(st.handle, g, count ? nodes.data() : nullptr,
                                              with_edges && count ? edges.data() : nullptr, count,
                                              CU_STREAM_CAPTURE_MODE_RELAXED);
  if (!g && s_.cu.cuStreamBeginCapture)
    error = s_.cu.cuStreamBeginCapture(st.handle, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (!error) {
    st.capturing = true;
    st.capture_error = CUDA_SUCCESS;
    ++captures_;
  }
  s_.reply(reply, error);
}

// invalid, into a given graph -> the graph
void Executor::end_capture(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  bool invalid = in.get<uint32_t>() != 0, given = in.get<uint32_t>() != 0;
  CUgraph g = nullptr;
  CUresult error =
      s_.cu.cuStreamEndCapture ? s_.cu.cuStreamEndCapture(st.handle, &g) : CUDA_ERROR_NOT_SUPPORTED;
  for (auto& [id, other] : s_.streams) {
    if (!other.capturing) continue;
    follow_capture(other);
    if (!other.capturing && other.capture_error && !error) error = other.capture_error;
  }
  if (captures_) --captures_;
  if (g && (invalid || error) && !given) {
    s_.cu.cuGraphDestroy(g);
    g = nullptr;
  }
  if (g) s_.objects.add(ObjectKind::graph, (uint64_t)g);
  std::string out;
  append(out, g);
  s_.reply(reply, error, out);
}

// -> graph, number of nodes, the nodes that the next call will depend on
void Executor::capture_info(const Record& r, StreamState& st) {
  uint64_t reply = r.decoder().get<uint64_t>(), count = 0;
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph g = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  CUresult error =
      s_.cu.cuStreamGetCaptureInfo
          ? s_.cu.cuStreamGetCaptureInfo(st.handle, &status, &id, &g, &nodes, &edges, &count)
          : CUDA_ERROR_NOT_SUPPORTED;
  std::string out;
  append(out, g);
  append(out, count);
  if (g) s_.objects.add(ObjectKind::graph, (uint64_t)g);
  for (uint64_t i = 0; !error && i < count; ++i) {
    s_.objects.add(ObjectKind::node, (uint64_t)nodes[i], (uint64_t)g);
    append(out, nodes[i]);
  }
  s_.reply(reply, error, out);
}

void Executor::update_capture(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint64_t reply = in.get<uint64_t>();
  uint32_t flags = in.get<uint32_t>(), count = in.get<uint32_t>();
  std::vector<CUgraphNode> nodes;
  if (!in.elements(nodes, count)) return s_.reply(reply, CUDA_ERROR_INVALID_VALUE);
  for (auto n : nodes)
    if (!s_.objects.known(ObjectKind::node, (uint64_t)n))
      return s_.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult error =
      s_.cu.cuStreamUpdateCaptureDependencies
          ? s_.cu.cuStreamUpdateCaptureDependencies(st.handle, nodes.data(), nullptr, count, flags)
          : CUDA_ERROR_NOT_SUPPORTED;
  s_.reply(reply, error);
}

// Calls of a stream that answer. The client has waited for the stream, so nothing of it is parked.
bool Executor::stream_reply(const Record& r) {
  StreamState* st = s_.stream(r.head.stream);
  if (!st) return false;
  switch ((wire::Op)r.head.opcode) {
    case wire::Op::begin_capture: begin_capture(r, *st); return true;
    case wire::Op::end_capture: end_capture(r, *st); return true;
    case wire::Op::capture_info: capture_info(r, *st); return true;
    case wire::Op::update_capture: update_capture(r, *st); return true;
    default: return false;
  }
}

}  // namespace busbar::server

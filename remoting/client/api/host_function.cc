// CUDA entry points: host functions on streams.
#include "client/host_function.h"

#include "client/api/require.h"
#include "client/call.h"

using namespace busbar;
using namespace busbar::client;

// `f` runs behind the work of the stream. In a capture it becomes a node; only cuLaunchHostFunc
// allows this, with its function as `plain`.
static CUresult add_host_function(CUstream handle, const std::function<void(Stream*)>& f,
                                  CUhostFn plain, void* data) {
  Call call;
  if (CUresult r = call.begin(handle)) return r;
  Stream* s = call.stream();
  if (auto capture = s->capturing ? capture_of(*s) : nullptr) {
    wire::Encoder<> e(wire::Op::capture_host_function, call.context_id(), call.stream_id());
    if (!plain) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    e.put(register_graph_function(call.link(), plain, data, capture->model));
    return call.send(e.finish(), e.size());
  }
  uint64_t id = register_stream_function(call.link(), s, [f, s] { f(s); });
  wire::Encoder<> e(wire::Op::host_function, call.context_id(), call.stream_id());
  e.put(id);
  return call.send(e.finish(), e.size());
}

#undef cuLaunchHostFunc
API CUresult cuLaunchHostFunc(CUstream h, CUhostFn f, void* data) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  return add_host_function(h, [=](Stream*) { f(data); }, f, data);
}
API CUresult cuStreamAddCallback(CUstream h, CUstreamCallback f, void* data, unsigned flags) {
  if (!f || flags) return CUDA_ERROR_INVALID_VALUE;
  return add_host_function(h, [=](Stream* s) { f(h, s->link->error(), data); }, nullptr, nullptr);
}

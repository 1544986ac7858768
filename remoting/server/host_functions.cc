// Host functions of the program on streams. The client runs the function; the stream is held until
// it has ended.
#include "server/handlers.h"
#include "server/pipeline.h"

namespace busbar::server {

// function
Outcome handlers::host_function(Pipeline& p, Record& r, StreamState& st) {
  if (st.capturing) return Outcome::done;
  CompletionFence fence;
  fence.host_function = r.decoder().get<uint64_t>();
  p.host_functions[fence.host_function] = {st.id, r.position};
  p.queues.hold(st);
  // Everything before the function is complete; the function itself is not.
  p.fences.record(st, r.position - 1, std::move(fence));
  return Outcome::done;
}

// function
bool handlers::host_function_done(Pipeline& p, const Record& r) {
  auto it = p.host_functions.find(r.decoder().get<uint64_t>());
  if (it == p.host_functions.end()) return true;
  HostFunctionCall call = it->second;
  p.host_functions.erase(it);
  p.queues.resume(call.stream);
  if (StreamState* st = p.session.stream(call.stream)) {
    p.session.use_context(st->context);
    p.fences.record(*st, call.position);
  }
  return true;
}

// function: becomes a node of the graph
Outcome handlers::capture_host_function(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  if (!st.capturing || !s.cu.cuLaunchHostFunc) return Outcome::done;
  void* data = graph_callback_data(s, r.decoder().get<uint64_t>());
  p.fences.check(
      data ? s.cu.cuLaunchHostFunc(st.handle, graph_callback(), data) : CUDA_ERROR_OUT_OF_MEMORY,
      st);
  return Outcome::done;
}

}  // namespace busbar::server

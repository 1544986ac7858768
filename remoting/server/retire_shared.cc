#include "server/retire_shared.h"

#include "server/submit.h"

namespace busbar::server {

namespace {
// Records a fence behind all work of a stream, and returns the mark that the fence completes.
StreamMark mark_of(Pipeline& p, StreamState& st) {
  if (!st.capturing && st.use->completed < st.use->submitted) {
    p.session.use_context(st.context);
    p.fences.record(st, st.last_work);
  }
  return {st.use, st.use->submitted};
}
}  // namespace

void retire_shared(Pipeline& p, EventState& e) {
  if (!e.shared) return;
  std::vector<StreamMark> marks;
  for (auto& [id, st] : p.session.streams) marks.push_back(mark_of(p, st));
  p.session.shared_events.retire(std::move(e.shared), std::move(marks));
}

void end_retired(Pipeline& p) {
  auto ended = p.session.shared_events.take_ended();
  if (ended.empty()) return;
  post(p, p.workers.memory, 0, [ended = std::move(ended)]() mutable { ended.clear(); });
}

void leave_shared(Pipeline& p, StreamState& st) {
  if (p.session.shared_events.any()) p.session.shared_events.leave(mark_of(p, st));
}

}  // namespace busbar::server

#include "server/fence_recorder.h"

#include <algorithm>
#include <utility>

namespace busbar::server {

bool FenceRecorder::open(const StreamState& st) const {
  return st.last_work > st.last_fence && !st.capturing && !queues_.held(st.id);
}

void FenceRecorder::begin_work(StreamState& st, uint64_t position) {
  if (st.capturing) return;
  if (legacy_open_ && st.blocking && !st.legacy) {
    record_legacy();
    s_.use_context(st.context);
  }
  list(st);
  st.last_work = position - 1;
}

void FenceRecorder::end_work(StreamState& st, uint64_t position) {
  if (st.capturing) return;
  st.last_work = position;
  ++st.use->submitted;
  if (position > st.last_fence) list(st);
}

void FenceRecorder::list(StreamState& st) {
  legacy_open_ |= st.legacy;
  if (st.listed) return;
  st.listed = true;
  open_.push_back(st.id);
}

void FenceRecorder::record(StreamState& st, uint64_t position, CompletionFence fence) {
  auto other = [&](uint32_t id) {
    return id != st.id;
  };
  if (st.legacy && std::any_of(open_.begin(), open_.end(), other)) {
    record_all(&st);
    s_.use_context(st.context);
  }
  record_one(st, position, std::move(fence));
}

void FenceRecorder::record_last(StreamState& st) {
  if (st.last_work > st.last_fence) record(st, st.last_work);
}

// Returns an idle event of the context, or a new one; null if the driver cannot create one.
CUevent FenceRecorder::take_event(ContextState& c, uint32_t context) {
  if (c.idle_events.empty()) c.idle_events = completions_.take_idle_events(context);
  if (!c.idle_events.empty()) {
    CUevent e = c.idle_events.back();
    c.idle_events.pop_back();
    return e;
  }
  CUevent e = nullptr;
  CUresult r = s_.cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  check(r);
  return r ? nullptr : e;
}

// Returns an event that tells the end of the work of the stream; null if there is none. Work
// without an event counts as unfinished.
CUevent FenceRecorder::record_event(ContextState& c, const StreamState& st) {
  CUevent e = take_event(c, st.context);
  CUresult r = e ? s_.cu.cuEventRecord(e, st.handle) : CUDA_SUCCESS;
  if (!r) return e;
  check(r);
  s_.cu.cuEventDestroy(e);
  return nullptr;
}

void FenceRecorder::record_one(StreamState& st, uint64_t position, CompletionFence fence) {
  ContextState* c = s_.context(st.context);
  fence.use = st.use;
  fence.submitted = st.use->submitted;
  if (!c) {
    if (st.gate) st.gate->discard(st.unfenced);
    return completions_.discard(fence);
  }
  // An event would become a part of the capture, and a query of it an error. Captured work does not
  // run: the fence completes when its turn comes. Another thread of the program began the capture.
  if (!st.capturing) fence.event = record_event(*c, st);
  if (fence.event && (st.unfenced.has_work() || st.works)) {
    fence.gate = st.gate;
    fence.work = st.gate->add_fence(st.unfenced);
    st.newest_fence = fence.work.number;
  }
  fence.context = st.context;
  fence.stream = st.id;
  fence.position = position;
  st.last_fence = std::max(st.last_fence, position);
  completions_.add(std::move(fence));
}

// Called before work of a blocking stream. Behind that work, the fence would wait for all of it.
void FenceRecorder::record_legacy() {
  for (uint32_t id : open_)
    if (StreamState* st = s_.stream(id); st && st->legacy && open(*st)) {
      s_.use_context(st->context);
      record_one(*st, st->last_work, {});
    }
  legacy_open_ = false;
}

void FenceRecorder::record_all(const StreamState* except) {
  auto last_work = [&](uint32_t id) {
    StreamState* st = s_.stream(id);
    return st ? st->last_work : 0;
  };
  std::sort(open_.begin(), open_.end(),
            [&](uint32_t a, uint32_t b) { return last_work(a) < last_work(b); });
  for (uint32_t id : open_) {
    StreamState* st = s_.stream(id);
    if (st) st->listed = false;
    if (!st || st == except || !open(*st)) continue;
    s_.use_context(st->context);
    record_one(*st, st->last_work, {});
  }
  open_.clear();
  legacy_open_ = false;
}

}  // namespace busbar::server

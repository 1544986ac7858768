#include "server/fence_recorder.h"

#include <algorithm>
#include <utility>

namespace busbar::server {

namespace {
// Faults of the GPU, after which a context runs nothing any more.
bool ends_all_work(CUresult error) {
  switch (error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK: return true;
    default: return false;
  }
}
}  // namespace

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

// Gets an idle event of the context, or a new one; null if the driver cannot create one.
CUresult FenceRecorder::take_event(ContextState& c, uint32_t context, CUevent& e) {
  if (c.idle_events.empty()) c.idle_events = completions_.take_idle_events(context);
  if (c.idle_events.empty()) {
    CUresult r = s_.cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    if (r) e = nullptr;
    return r;
  }
  e = c.idle_events.back();
  c.idle_events.pop_back();
  return CUDA_SUCCESS;
}

// Returns an event that tells the end of the work of the stream; null if there is none. Work
// without an event counts as unfinished, unless a fault has ended it: no later event would.
CUevent FenceRecorder::record_event(ContextState& c, StreamState& st) {
  CUevent e = nullptr;
  CUresult r = take_event(c, st.context, e);
  if (!r) r = s_.cu.cuEventRecord(e, st.handle);
  if (!r) return e;
  check(r);
  if (e) s_.cu.cuEventDestroy(e);
  if (st.gate && ends_all_work(r)) st.gate->discard(st.unfenced);
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
    st.use->backlog.add_fence(fence.work.records);
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

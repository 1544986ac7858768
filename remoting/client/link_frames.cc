// Handling of received frames. Their content is untrusted.
#include <algorithm>
#include <cstring>
#include <system_error>

#include "client/link.h"
#include "transport/futex.h"

namespace busbar::client {

namespace {
// Between looks at the work that may use freed memory. A request for the memory waits 2 s.
constexpr int kMemoryLookMs = 500;
}  // namespace

// Return the rest of a frame up to the first zero.
static std::string remaining_text(wire::Decoder& d) {
  uint64_t n = d.left();
  std::string text((const char*)d.raw(n), n);
  return text.c_str();
}

// Handles the complete frames in the inbox. Returns false when one is malformed.
bool Link::parse_frames() {
  order_.after_receive();
  size_t at = 0;
  wire::FrameHeader h;
  while (inbox_.size() - at >= sizeof h) {
    std::memcpy(&h, inbox_.data() + at, sizeof h);
    if (h.bytes > wire::kMaxFrameBytes) {
      fail(CUDA_ERROR_DEVICE_UNAVAILABLE,
           "the node sent a frame of " + std::to_string(h.bytes) + " bytes, over the limit");
      return false;
    }
    if (inbox_.size() - at < sizeof h + h.bytes) break;
    if (!handle_frame(h, inbox_.data() + at + sizeof h)) {
      fail(CUDA_ERROR_DEVICE_UNAVAILABLE,
           "the node sent a malformed frame of kind " + std::to_string(h.kind));
      return false;
    }
    at += sizeof h + h.bytes;
  }
  if (at) {
    inbox_.erase(inbox_.begin(), inbox_.begin() + (ptrdiff_t)at);
    wake_waiters();
  }
  return true;
}

bool Link::handle_frame(const wire::FrameHeader& h, const uint8_t* p) {
  wire::Decoder d(p, h.bytes);
  switch ((wire::Frame)h.kind) {
    case wire::Frame::completion: handle_completion(d); return true;
    case wire::Frame::reply: return handle_reply(d);
    case wire::Frame::data: {
      uint64_t transfer = d.get<uint64_t>(), offset = d.get<uint64_t>(), n = d.left();
      return deliver_transfer(transfer, offset, d.raw(n), n);
    }
    case wire::Frame::shared_data: return handle_shared_data(d);
    case wire::Frame::host_function: {
      uint64_t id = d.get<uint64_t>();
      if (on_host_function) on_host_function(id);
      return d.ok();
    }
    case wire::Frame::graph_function: {
      uint64_t id = d.get<uint64_t>(), round = d.get<uint64_t>();
      if (on_graph_function) on_graph_function(id, round);
      return d.ok();
    }
    case wire::Frame::graph_output: return handle_graph_output(d);
    case wire::Frame::kernel_output: {
      uint64_t n = d.left();
      kernel_output.add(d.raw(n), n);
      return true;
    }
    case wire::Frame::credit: bulk_credit_ = d.get<uint64_t>(); return d.ok();
    case wire::Frame::pause: return handle_pause(d);
    case wire::Frame::partition_size: return handle_partition_size(d);
    case wire::Frame::memory_wanted: handle_memory_wanted(); return true;
    case wire::Frame::session_error: {
      auto error = (CUresult)d.get<uint32_t>();
      fail(error, "the session was ended: " + remaining_text(d));
      return true;
    }
  }
  return false;
}

bool Link::handle_pause(wire::Decoder d) {
  bool paused = d.get<uint32_t>() != 0;
  uint32_t stream = d.get<uint32_t>();
  MutexLock lock(mutex_);
  if (d.ok() && paused) paused_.insert(stream);
  if (d.ok() && !paused) paused_.erase(stream);
  any_paused_ = !paused_.empty();
  return d.ok();
}

bool Link::handle_partition_size(wire::Decoder d) {
  uint32_t device = d.get<uint32_t>();
  bool is_exceeded = d.get<uint32_t>() != 0;
  uint64_t bytes = d.get<uint64_t>();
  if (!d.ok() || device >= partition_sizes_.size()) return false;
  partition_sizes_[device].bytes = bytes;
  partition_sizes_[device].is_exceeded = is_exceeded;
  return true;
}

// Returns true if a thread answers already, and wakes it.
bool Link::want_memory() {
  uint32_t times = memory_wanted_.fetch_add(1);
  if (times) transport::futex_wake(memory_wanted_, transport::Scope::process);
  return times;
}

// The return may wait for the node, whose answers this thread reads. One thread answers, and looks
// again when memory is wanted meanwhile. Without a thread the memory stays here.
void Link::handle_memory_wanted() {
  if (!return_memory || want_memory()) return;
  try {
    start_thread([this] { answer_memory_wanted(); });
  } catch (const std::system_error&) {
    memory_wanted_ = 0;
  }
}

// Each completion would wake a thread that waits for frames.
void Link::answer_memory_wanted() {
  uint32_t times = 0;
  auto wait = [&] {
    if (!error())
      transport::futex_wait(memory_wanted_, times, transport::milliseconds(kMemoryLookMs),
                            transport::Scope::process);
    return !error() && memory_wanted_ == times;
  };
  do {
    times = memory_wanted_;
    return_memory(wait);
  } while (!memory_wanted_.compare_exchange_strong(times, 0));
  wire::Encoder<> e(wire::Op::return_complete, 0);
  submit(e.finish(), e.size());
}

bool Link::handle_graph_output(wire::Decoder d) {
  uint32_t staging = d.get<uint32_t>();
  d.get<uint32_t>();
  uint64_t offset = d.get<uint64_t>(), n = d.left();
  return deliver_graph_output(staging, offset, d.raw(n), n);
}

bool Link::handle_reply(wire::Decoder d) {
  uint64_t id = d.get<uint64_t>();
  uint32_t status = d.get<uint32_t>();
  MutexLock lock(mutex_);
  auto it = replies_.find(id);
  if (!d.ok() || it == replies_.end()) return d.ok();
  uint64_t n = d.left();
  it->second->body.assign((const char*)d.raw(n), n);
  std::atomic_ref<uint32_t>(it->second->status).store(status, std::memory_order_release);
  replies_.erase(it);
  return true;
}

bool Link::handle_shared_data(wire::Decoder d) {
  uint64_t transfer = d.get<uint64_t>(), offset = d.get<uint64_t>(), n = d.get<uint64_t>();
  uint32_t chunk = d.get<uint32_t>();
  if (!d.ok() || !shared_ || chunk >= transport::kSharedChunks || n > transport::kSharedChunkBytes)
    return false;
  bool delivered = deliver_transfer(transfer, offset, shared_->chunk(false, chunk), n);
  shared_->release_chunk(false, chunk);
  return delivered;
}

void Link::handle_completion(wire::Decoder d) {
  uint32_t stream = d.get<uint32_t>(), error = d.get<uint32_t>();
  uint64_t position = d.get<uint64_t>(), bulk = d.get<uint64_t>();
  wait_for_bulk(bulk);  // the bytes must arrive before the position that announces them
  if (error) fail((CUresult)error, "");
  MutexLock lock(mutex_);
  auto it = progress_.find(stream);
  if (it == progress_.end()) return;
  auto& completed = it->second->completed;
  if (completed.load() < position) completed.store(position, std::memory_order_release);
}

bool Link::deliver_graph_output(uint32_t staging, uint64_t offset, const uint8_t* from,
                                uint64_t bytes) {
  Rows rows;
  {
    MutexLock lock(mutex_);
    auto it = staged_.find(staging);
    if (it == staged_.end()) return true;  // the graph has been destroyed
    rows = it->second;
  }
  if (!from || offset > rows.bytes() || bytes > rows.bytes() - offset) return false;
  rows.pieces(offset, bytes, [&](uint8_t* to, uint64_t n) {
    write_program_memory(to, from, n);
    from += n;
  });
  return true;
}

// Returns false for an unknown transfer or a range outside of it.
bool Link::deliver_transfer(uint64_t transfer, uint64_t offset, const void* p, uint64_t bytes) {
  MutexLock lock(mutex_);
  auto it = incoming_.find(transfer);
  if (it == incoming_.end() || offset > it->second.bytes || bytes > it->second.bytes - offset)
    return false;
  Incoming in = it->second;
  lock.unlock();
  auto* from = (const uint8_t*)p;
  bool written = true;
  in.to.pieces(in.offset + offset, bytes, [&](uint8_t* to, uint64_t n) {
    written = written && write_program_memory(to, from, n);
    if (in.second.bytes) std::memcpy(in.second.bytes->data() + (to - in.second.first), from, n);
    from += n;
  });
  if (!written) return true;
  lock.lock();
  it = incoming_.find(transfer);
  if (it != incoming_.end() && (it->second.left -= std::min(it->second.left, bytes)) == 0)
    incoming_.erase(it);
  return true;
}

}  // namespace busbar::client

// What comes from the node: frames, taken apart and delivered. Nothing in them is believed.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "client/link.h"

namespace busbar::client {

// Whole frames of the inbox. False when one is malformed.
bool Link::parse_frames() {
  order_.arrive();
  size_t at = 0;
  wire::FrameHeader h;
  while (inbox_.size() - at >= sizeof h) {
    std::memcpy(&h, inbox_.data() + at, sizeof h);
    if (h.bytes > wire::kMaxFrameBytes) {
      fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the node sent a frame that is too large");
      return false;
    }
    if (inbox_.size() - at < sizeof h + h.bytes) break;
    if (!frame(h, inbox_.data() + at + sizeof h)) {
      fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the node sent a malformed frame");
      return false;
    }
    at += sizeof h + h.bytes;
  }
  if (at) {
    inbox_.erase(inbox_.begin(), inbox_.begin() + (ptrdiff_t)at);
    announce();
  }
  return true;
}

bool Link::frame(const wire::FrameHeader& h, const uint8_t* p) {
  wire::Decoder d(p, h.bytes);
  switch ((wire::Frame)h.kind) {
    case wire::Frame::completion: completion(d); return true;
    case wire::Frame::reply: {
      uint64_t id = d.get<uint64_t>();
      uint32_t status = d.get<uint32_t>();
      std::lock_guard lock(mutex_);
      auto it = answers_.find(id);
      if (!d.ok() || it == answers_.end()) return d.ok();
      uint64_t n = d.left();
      it->second->body.assign((const char*)d.raw(n), n);
      std::atomic_ref<uint32_t>(it->second->status).store(status, std::memory_order_release);
      answers_.erase(it);
      return true;
    }
    case wire::Frame::push: {
      uint64_t transfer = d.get<uint64_t>(), offset = d.get<uint64_t>(), n = d.left();
      return deliver(transfer, offset, d.raw(n), n);
    }
    case wire::Frame::push_shared: {
      uint64_t transfer = d.get<uint64_t>(), offset = d.get<uint64_t>(), n = d.get<uint64_t>();
      uint32_t chunk = d.get<uint32_t>();
      if (!d.ok() || !shared_ || chunk >= transport::kSharedChunks ||
          n > transport::kSharedChunkBytes)
        return false;
      bool fine = deliver(transfer, offset, shared_->chunk(false, chunk), n);
      shared_->free_chunk(false, chunk);
      return fine;
    }
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
    case wire::Frame::graph_output: {
      uint32_t staging = d.get<uint32_t>();
      d.get<uint32_t>();
      uint64_t offset = d.get<uint64_t>(), n = d.left();
      return deliver_output(staging, offset, d.raw(n), n);
    }
    case wire::Frame::output: {  // as the driver would: in the order of the program's own output
      uint64_t n = d.left();
      std::fwrite(d.raw(n), 1, n, stdout);
      std::fflush(stdout);
      return true;
    }
    case wire::Frame::credit: bulk_credit_ = d.get<uint64_t>(); return d.ok();
    case wire::Frame::session_error: {
      auto error = (CUresult)d.get<uint32_t>();
      uint64_t n = d.left();
      std::string text((const char*)d.raw(n), n);
      fail(error, "the session was ended: " + std::string(text.c_str()));
      return true;
    }
  }
  return false;
}

void Link::completion(wire::Decoder d) {
  uint32_t stream = d.get<uint32_t>(), error = d.get<uint32_t>();
  uint64_t position = d.get<uint64_t>(), bulk = d.get<uint64_t>();
  wait_for_bulk(bulk);  // bytes first, then the counter that announces them
  if (error) fail((CUresult)error, "");
  std::lock_guard lock(mutex_);
  auto it = progress_.find(stream);
  if (it == progress_.end()) return;
  auto& completed = it->second->completed;
  if (completed.load() < position) completed.store(position, std::memory_order_release);
}

bool Link::deliver_output(uint32_t staging, uint64_t offset, const uint8_t* from, uint64_t bytes) {
  Rows rows;
  {
    std::lock_guard lock(mutex_);
    auto it = staged_.find(staging);
    if (it == staged_.end()) return true;  // its graph is gone
    rows = it->second;
  }
  if (!from || offset > rows.bytes() || bytes > rows.bytes() - offset) return false;
  rows.pieces(offset, bytes, [&](uint8_t* to, uint64_t n) {
    write_program_memory(to, from, n);
    from += n;
  });
  return true;
}

bool Link::deliver(uint64_t transfer, uint64_t offset, const void* p, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  auto it = incoming_.find(transfer);
  if (it == incoming_.end() || offset > it->second.bytes || bytes > it->second.bytes - offset)
    return false;
  Incoming in = it->second;
  lock.unlock();
  auto* from = (const uint8_t*)p;
  bool fine = true;
  in.to.pieces(in.offset + offset, bytes, [&](uint8_t* to, uint64_t n) {
    fine = fine && write_program_memory(to, from, n);
    from += n;
  });
  if (!fine) return true;
  lock.lock();
  it = incoming_.find(transfer);
  if (it != incoming_.end() && (it->second.left -= std::min(it->second.left, bytes)) == 0)
    incoming_.erase(it);
  return true;
}

}  // namespace busbar::client

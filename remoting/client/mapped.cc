#include "client/mapped.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "client/context.h"
#include "client/deliveries.h"
#include "client/device_memory.h"
#include "client/differences.h"
#include "client/host_mirror_count.h"
#include "client/link.h"
#include "client/memory_request.h"
#include "client/placed_memory.h"
#include "client/session.h"
#include "mutex.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPage = 4096, kWord = 4;
constexpr size_t kMaxChangedWords = 1024;  // runs of words that are sent one by one

struct Changed {
  uint64_t offset, bytes;
};

struct Mapped {
  uint8_t* host = nullptr;
  uint64_t bytes = 0, device = 0;  // size of both copies; address of the device copy
  Context* context = nullptr;
  PlacedMemory placed;                           // the device copy, if it has the same address
  std::shared_ptr<std::vector<uint8_t>> synced;  // content at the last synchronization
  Deliveries deliveries;                         // to `host` and `synced`
  bool used = false;                             // work was submitted since then
  Link* link() const { return context->device->link; }

  bool covers(const void* p, uint64_t n) const {
    uint64_t offset = (uint64_t)p - (uint64_t)host;
    return offset <= bytes && n <= bytes - offset;
  }
  bool overlaps(const void* p, uint64_t n) const {
    return (uint64_t)p < (uint64_t)host + bytes && (uint64_t)host < (uint64_t)p + n;
  }
  // Calls f(offset, n) for the parts that no transfer is about to write.
  void for_each_gap(const std::function<void(uint64_t, uint64_t)>& f) {
    deliveries.remove_if([&](uint64_t transfer) { return !link()->is_expected(transfer); });
    deliveries.for_each_gap(bytes, f);
  }
  // Return what the program has changed, in whole units.
  std::vector<Changed> changes(uint64_t unit) {
    std::vector<Changed> out;
    for_each_gap([&](uint64_t at, uint64_t n) {
      differences(host + at, synced->data() + at, n, unit,
                  [&](uint64_t offset, uint64_t k) { out.push_back({at + offset, k}); });
    });
    return out;
  }
};

// A stream that waits for no other work of the program, and is not captured.
struct OwnStream {
  StreamRef stream;       // non-blocking
  uint32_t event = 0;     // id on the node
  uint64_t uploaded = 0;  // position of the newest change that was sent
};

struct Table {
  Mutex mutex;
  // By host address and node.
  std::map<std::pair<uint64_t, Link*>, Mapped> mappings GUARDED_BY(mutex);
  std::map<Context*, OwnStream> own_streams GUARDED_BY(mutex);
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

// Return whether all work that was submitted to a node is complete.
bool is_idle(Link* link) {
  auto contexts = session()->contexts.all();
  return std::all_of(contexts.begin(), contexts.end(), [&](Context* c) {
    return c->destroyed || c->device->link != link || submitted_work_done(c)();
  });
}

CUresult open_own_stream(Context* c, OwnStream& own) {
  Link* link = c->device->link;
  own.event = session()->next_id++;
  wire::Encoder<> e(wire::Op::create_event, c->id);
  e.put(own.event).put<uint32_t>(CU_EVENT_DISABLE_TIMING);
  if (!link->submit(e.finish(), e.size())) return link->error();
  return open_stream(c, CU_STREAM_NON_BLOCKING, 0, own.stream);
}

CUresult find_own_stream(Context* c, Stream*& out) REQUIRES(table().mutex) {
  OwnStream& own = table().own_streams[c];
  CUresult r = own.stream ? CUDA_SUCCESS : open_own_stream(c, own);
  out = own.stream.get();
  return r;
}

CUresult submit_event(wire::Op op, uint32_t event, Stream* s) {
  wire::Encoder<> e(op, s->context->id, s->id);
  e.put(event);
  uint64_t position = s->link->submit(e.finish(), e.size());
  if (!position) return s->link->error();
  record_submission(s, position);
  return CUDA_SUCCESS;
}

// Orders work of a stream behind that of the own stream of a context. Captured work may depend on
// no other, so this thread waits instead.
CUresult order_behind(Context* c, Stream* s) REQUIRES(table().mutex) {
  OwnStream& own = table().own_streams[c];
  if (s->capturing) return wait_for_submitted(own.stream.get());
  if (CUresult r = submit_event(wire::Op::record_event, own.event, own.stream.get())) return r;
  return submit_event(wire::Op::wait_event, own.event, s);
}

// The same, unless it is so already.
CUresult order_behind_uploads(Context* c, Stream* s) REQUIRES(table().mutex) {
  OwnStream& own = table().own_streams[c];
  if (s->after_upload >= own.uploaded || own.stream->progress.reached(own.uploaded))
    return CUDA_SUCCESS;
  if (CUresult r = order_behind(c, s)) return r;
  s->after_upload = own.uploaded;
  return CUDA_SUCCESS;
}

// Copies the bytes that kernels have changed to host memory.
CUresult fetch(Mapped& m) REQUIRES(table().mutex) {
  Context* c = m.context;
  std::vector<uint8_t> now(m.bytes);
  uint64_t position = 0;
  bool idle = is_idle(m.link());
  Stream* s;
  if (CUresult r = find_own_stream(c, s)) return r;
  if (CUresult r = submit_download(c, s, now.data(), m.device, m.bytes, position)) return r;
  if (CUresult r = wait_for(s, position)) return r;
  m.for_each_gap([&](uint64_t at, uint64_t bytes) {
    uint8_t* synced = m.synced->data() + at;
    differences(now.data() + at, synced, bytes, kPage, [&](uint64_t offset, uint64_t n) {
      for (uint64_t i = offset; i < offset + n; ++i)
        if (now[at + i] != synced[i]) m.host[at + i] = now[at + i];  // keeps the program's changes
      std::memcpy(synced + offset, now.data() + at + offset, n);
    });
  });
  m.used = !idle || !m.deliveries.empty();
  return CUDA_SUCCESS;
}

// Finds the changes of the program. Kernels that run may change other words of the same pages, so
// they are whole pages only if nothing was submitted since the last synchronization. Many changed
// words become pages if that work has ended. Waiting for it could take forever: it may wait for
// what the program submits next.
CUresult find_changes(Mapped& m, std::vector<Changed>& out) REQUIRES(table().mutex) {
  out = m.changes(m.used ? kWord : kPage);
  if (!m.used || out.size() <= kMaxChangedWords || !is_idle(m.link())) return CUDA_SUCCESS;
  if (CUresult r = fetch(m)) return r;
  out = m.changes(kPage);
  return CUDA_SUCCESS;
}

// Sends ranges of the host memory and records them as synchronized.
CUresult send(Mapped& m, Stream* s, const std::vector<Changed>& ranges) REQUIRES(table().mutex) {
  for (auto& range : ranges) {
    const uint8_t* from = m.host + range.offset;
    if (CUresult r = submit_upload(m.context, s, m.device + range.offset, from, range.bytes))
      return r;
    std::memcpy(m.synced->data() + range.offset, from, range.bytes);
  }
  return CUDA_SUCCESS;
}

// Sends the changes of one region before work of a stream. That work alone waits for them, and for
// those that were sent before: in the legacy stream they would wait for other work, which may wait
// for this.
CUresult flush(Mapped& m, Stream* before) REQUIRES(table().mutex) {
  Stream* s;
  std::vector<Changed> ranges;
  CUresult r = find_own_stream(m.context, s);
  if (!r) r = find_changes(m, ranges);
  if (!r) r = send(m, s, ranges);
  m.used = true;
  if (!r && !ranges.empty()) table().own_streams[m.context].uploaded = s->progress.last.load();
  return r ? r : order_behind_uploads(m.context, before);
}

// Allocates the device copy: at the address of the host memory if it can lie there.
CUresult allocate_copy(Mapped& m, Attempt attempt) REQUIRES(table().mutex) {
  bool free = false;
  m.device = (uint64_t)m.host;
  CUresult r = place_memory(m.context, m.device, m.bytes, attempt, m.placed, free);
  if (!r || free) return r;
  if ((r = allocate_device_memory(m.context, m.bytes, m.device, attempt))) return r;
  session()->addresses.add({Region::device, m.device, m.bytes, 0, m.context, 0});
  return CUDA_SUCCESS;
}

void free_copy(const Mapped& m) {
  if (m.placed.bytes) return free_placed_memory(m.context, m.placed);
  session()->addresses.remove(m.device, Region::device);
  release_device_memory({Region::device, m.device, m.bytes, 0, m.context, 0},
                        submitted_work_done(m.context));
}

// Waits for earlier copies to a region. A copy of a graph that a condition skipped sends nothing.
// The copies may wait for another thread of the program.
CUresult wait_for_transfers(const Region& region) EXCLUDES(table().mutex) {
  for (auto& link : session()->links)
    if (CUresult r = link->wait_until([&] {
          return !link->is_receiving((uint8_t*)region.base, region.bytes) || is_idle(link.get());
        }))
      return r;
  return CUDA_SUCCESS;
}

// Creates the device copy of a region.
CUresult create_copy(const Region& r, Context* c, Attempt attempt, Mapped& m)
    REQUIRES(table().mutex) {
  m.host = (uint8_t*)r.base;
  m.bytes = r.bytes;
  m.context = c;
  CUresult e = allocate_copy(m, attempt);
  if (e) return e;
  m.synced = std::make_shared<std::vector<uint8_t>>(m.bytes);
  m.used = true;
  Stream* s;
  e = find_own_stream(c, s);
  if (!e) e = send(m, s, {{0, m.bytes}});
  if (!e) e = wait_for_submitted(s);
  if (e) free_copy(m);
  return e;
}

// Returns the address of the device copy of a region, or 0 if there is none.
uint64_t find_copy(const Region& r, const Context* c) {
  MutexLock lock(table().mutex);
  auto it = table().mappings.find({r.base, c->device->link});
  return it == table().mappings.end() ? 0 : it->second.device;
}

// Creates the device copy of a region, unless another thread has.
CUresult create_mapping(const Region& r, Context* c, Attempt attempt, uint64_t& device) {
  if (CUresult e = wait_for_transfers(r)) return e;
  MutexLock lock(table().mutex);
  auto [it, added] = table().mappings.try_emplace({r.base, c->device->link});
  if (added) {
    if (CUresult e = create_copy(r, c, attempt, it->second)) {
      table().mappings.erase(it);
      return e;
    }
    g_host_mirrors++;
  }
  device = it->second.device;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult flush_mapped(Stream& s) {
  MutexLock lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (m.link() == s.context->device->link)
      if (CUresult r = flush(m, &s)) return r;
  return CUDA_SUCCESS;
}

CUresult fetch_mapped(Context* c) {
  MutexLock lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (m.used && m.link() == c->device->link)
      if (CUresult r = fetch(m)) return r;
  return CUDA_SUCCESS;
}

bool is_mapped(CUdeviceptr p) {
  MutexLock lock(table().mutex);
  return std::any_of(table().mappings.begin(), table().mappings.end(),
                     [&](auto& entry) { return p - entry.second.device < entry.second.bytes; });
}

uint64_t mapped_address(uint64_t host) {
  MutexLock lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (host - key.first < m.bytes) return m.device + (host - key.first);
  return 0;
}

uint64_t device_copy_of(Link* link, const void* host, uint64_t bytes) {
  MutexLock lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (m.link() == link && m.covers(host, bytes)) return m.device + ((uint8_t*)host - m.host);
  return 0;
}

bool has_device_copies(const void* host, uint64_t bytes, const Link* known) {
  MutexLock lock(table().mutex);
  return std::ranges::any_of(table().mappings, [&](auto& entry) {
    const Mapped& m = entry.second;
    return m.overlaps(host, bytes) && !(m.link() == known && m.covers(host, bytes));
  });
}

uint64_t expect_delivery(Link* link, const Rows& to, uint64_t offset, uint64_t bytes) {
  if (!has_host_mirrors()) return link->expect_transfer(to, offset, bytes);
  MutexLock lock(table().mutex);
  for (auto& [key, m] : table().mappings) {
    if (m.link() != link || !m.covers(to.base, to.span())) continue;
    uint64_t transfer = link->expect_transfer(to, offset, bytes, {m.synced, m.host});
    to.pieces(offset, bytes, [&](uint8_t* at, uint64_t n) {
      m.deliveries.add(transfer, (uint64_t)(at - m.host), n);
    });
    return transfer;
  }
  return link->expect_transfer(to, offset, bytes);
}

CUresult settle_mapped(Context* c, Stream* s) {
  if (CUresult r = wait_for_submitted(s)) return r;
  return fetch_mapped(c);
}

CUresult send_to_device_copies(const Rows& rows) {
  MutexLock lock(table().mutex);
  for (auto& [key, m] : table().mappings) {
    std::vector<Changed> ranges;
    rows.pieces(0, rows.bytes(), [&](uint8_t* at, uint64_t n) {
      uint8_t* begin = std::max(at, m.host);
      uint8_t* end = std::min(at + n, m.host + m.bytes);
      if (begin < end) ranges.push_back({(uint64_t)(begin - m.host), (uint64_t)(end - begin)});
    });
    Stream* s;
    if (ranges.empty()) continue;
    if (CUresult r = find_own_stream(m.context, s)) return r;
    if (CUresult r = send(m, s, ranges)) return r;
    if (CUresult r = wait_for_submitted(s)) return r;
  }
  return CUDA_SUCCESS;
}

void unmap_host_memory(const void* host) {
  MutexLock lock(table().mutex);
  auto& mappings = table().mappings;
  auto first = mappings.lower_bound({(uint64_t)host, nullptr}), last = first;
  std::vector<Mapped> removed;
  for (; last != mappings.end() && last->first.first == (uint64_t)host; ++last)
    removed.push_back(std::move(last->second));
  mappings.erase(first, last);
  lock.unlock();
  g_host_mirrors -= (int)removed.size();
  for (auto& m : removed) free_copy(m);
}

void unmap_context(Context* c) {
  std::vector<Mapped> removed;
  MutexLock lock(table().mutex);
  for (auto it = table().mappings.begin(); it != table().mappings.end();) {
    Mapped& m = it->second;
    bool last = m.context == c;
    if (last && m.used) fetch(m);
    if (last) removed.push_back(std::move(m));
    it = last ? table().mappings.erase(it) : std::next(it);
  }
  table().own_streams.erase(c);
  lock.unlock();
  g_host_mirrors -= (int)removed.size();
  for (auto& m : removed) free_copy(m);
}

CUresult map_host_memory(const Region& r, Context* c, uint64_t& device) {
  device = find_copy(r, c);
  if (device) return CUDA_SUCCESS;
  return request_with_lock(c,
                           [&](Attempt attempt) { return create_mapping(r, c, attempt, device); });
}

CUresult map_pinned(Context* c, uint64_t address) {
  Region r = session()->addresses.find(address);
  uint64_t device = 0;
  return r.kind == Region::pinned ? map_host_memory(r, c, device) : CUDA_SUCCESS;
}

CUresult map_all_pinned(Context* c, const uint8_t* parameters, uint32_t bytes) {
  uint64_t value;
  for (uint32_t at = 0; at + sizeof value <= bytes; at += sizeof value) {
    std::memcpy(&value, parameters + at, sizeof value);
    if (may_be_pinned(value))
      if (CUresult r = map_pinned(c, value)) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace busbar::client

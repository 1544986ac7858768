#include "client/mapped.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "client/context.h"
#include "client/device_memory.h"
#include "client/host_mirror_count.h"
#include "client/placed_memory.h"
#include "client/session.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPage = 4096;

struct Mapped {
  uint8_t* host = nullptr;
  uint64_t bytes = 0, device = 0;  // size of both copies; address of the device copy
  Context* context = nullptr;
  PlacedMemory placed;          // the device copy, if it has the same address
  std::vector<uint8_t> synced;  // content at the last synchronization
  bool used = false;            // work was submitted since then
  Link* link() const { return context->device->link; }
};

struct Table {
  std::mutex mutex;
  std::map<std::pair<uint64_t, Link*>, Mapped> mappings;  // by host address and node
  std::map<Context*, StreamRef> own_streams;              // non-blocking
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

// Calls f(offset, n) for each run of pages that differ.
template <typename F>
void differences(const uint8_t* a, const uint8_t* b, uint64_t bytes, F f) {
  for (uint64_t at = 0; at < bytes;) {
    uint64_t n = std::min(kPage, bytes - at);
    if (!std::memcmp(a + at, b + at, n)) {
      at += n;
      continue;
    }
    uint64_t end = at + n;
    while (end < bytes && std::memcmp(a + end, b + end, std::min(kPage, bytes - end)))
      end += std::min(kPage, bytes - end);
    f(at, end - at);
    at = end;
  }
}

// Return whether all work that was submitted to a node is complete.
bool is_idle(Link* link) {
  auto contexts = session()->contexts.all();
  return std::all_of(contexts.begin(), contexts.end(), [&](Context* c) {
    return c->destroyed || c->device->link != link || submitted_work_done(c)();
  });
}

// A stream that waits for no other work of the program, and is not captured. Call with the lock.
CUresult find_own_stream(Context* c, Stream*& out) {
  StreamRef& s = table().own_streams[c];
  CUresult r = s ? CUDA_SUCCESS : open_stream(c, CU_STREAM_NON_BLOCKING, 0, s);
  out = s.get();
  return r;
}

// Copies the bytes that kernels have changed to host memory. Call with the lock.
CUresult fetch(Mapped& m) {
  Context* c = m.context;
  std::vector<uint8_t> now(m.bytes);
  uint64_t position = 0;
  bool idle = is_idle(m.link());
  Stream* s;
  if (CUresult r = find_own_stream(c, s)) return r;
  if (CUresult r = submit_download(c, s, now.data(), m.device, m.bytes, position)) return r;
  if (CUresult r = wait_for(s, position)) return r;
  differences(now.data(), m.synced.data(), m.bytes, [&](uint64_t offset, uint64_t n) {
    for (uint64_t i = offset; i < offset + n; ++i)
      if (now[i] != m.synced[i]) m.host[i] = now[i];  // keeps the changes of the program
    std::memcpy(m.synced.data() + offset, now.data() + offset, n);
  });
  m.used = !idle;
  return CUDA_SUCCESS;
}

// Sends the changes of one region before work of a stream. Call with the lock.
CUresult flush(Mapped& m, const Stream& before) {
  Stream* s = &m.context->legacy;
  bool sent = false;
  // The legacy stream orders the upload before work of blocking streams of its context.
  bool ordered = m.context == before.context && !(before.flags & CU_STREAM_NON_BLOCKING) &&
                 !m.context->capturing_streams;
  CUresult r = ordered ? CUDA_SUCCESS : find_own_stream(m.context, s);
  differences(m.host, m.synced.data(), m.bytes, [&](uint64_t offset, uint64_t n) {
    if (!r) r = submit_upload(m.context, s, m.device + offset, m.host + offset, n);
    std::memcpy(m.synced.data() + offset, m.host + offset, n);
    sent = true;
  });
  m.used = true;
  return r || ordered || !sent ? r : wait_for_submitted(s);
}

// Allocates the device copy: at the address of the host memory if it can lie there.
CUresult allocate_copy(Mapped& m) {
  bool free = false;
  m.device = (uint64_t)m.host;
  if (CUresult r = place_memory(m.context, m.device, m.bytes, m.placed, free); !r || free) return r;
  if (CUresult r = allocate_device_memory(m.context, m.bytes, m.device)) return r;
  session()->addresses.add({Region::device, m.device, m.bytes, 0, m.context, 0});
  return CUDA_SUCCESS;
}

void free_copy(const Mapped& m) {
  if (m.placed.bytes) return free_placed_memory(m.context, m.placed);
  session()->addresses.remove(m.device, Region::device);
  release_device_memory({Region::device, m.device, m.bytes, 0, m.context, 0},
                        submitted_work_done(m.context));
}

// Creates the device copy of a region. Call with the lock.
CUresult create_copy(const Region& r, Context* c, Mapped& m) {
  m.host = (uint8_t*)r.base;
  m.bytes = r.bytes;
  m.context = c;
  if (CUresult e = allocate_copy(m)) return e;
  m.synced.assign(m.host, m.host + m.bytes);
  m.used = true;
  Stream* s;
  CUresult e = find_own_stream(c, s);
  if (!e) e = submit_upload(c, s, m.device, m.host, m.bytes);
  if (!e) e = wait_for_submitted(s);
  if (e) free_copy(m);
  return e;
}
}  // namespace

CUresult flush_mapped(Stream& s) {
  std::lock_guard lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (m.link() == s.context->device->link)
      if (CUresult r = flush(m, s)) return r;
  return CUDA_SUCCESS;
}

CUresult fetch_mapped(Context* c) {
  std::lock_guard lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (m.used && m.link() == c->device->link)
      if (CUresult r = fetch(m)) return r;
  return CUDA_SUCCESS;
}

bool is_mapped(CUdeviceptr p) {
  std::lock_guard lock(table().mutex);
  return std::any_of(table().mappings.begin(), table().mappings.end(),
                     [&](auto& entry) { return p - entry.second.device < entry.second.bytes; });
}

uint64_t mapped_address(uint64_t host) {
  std::lock_guard lock(table().mutex);
  for (auto& [key, m] : table().mappings)
    if (host - key.first < m.bytes) return m.device + (host - key.first);
  return 0;
}

bool is_placed(Link* link, uint64_t host, uint64_t bytes) {
  std::lock_guard lock(table().mutex);
  return std::any_of(table().mappings.begin(), table().mappings.end(), [&](auto& entry) {
    const Mapped& m = entry.second;
    uint64_t offset = host - entry.first.first;
    return m.placed.bytes && m.link() == link && offset <= m.bytes && bytes <= m.bytes - offset;
  });
}

void unmap_host_memory(const void* host) {
  std::unique_lock lock(table().mutex);
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
  std::unique_lock lock(table().mutex);
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
  std::lock_guard lock(table().mutex);
  auto [it, added] = table().mappings.try_emplace({r.base, c->device->link});
  if (added) {
    if (CUresult e = create_copy(r, c, it->second)) {
      table().mappings.erase(it);
      return e;
    }
    g_host_mirrors++;
  }
  device = it->second.device;
  return CUDA_SUCCESS;
}

CUresult map_pinned(Context* c, uint64_t address) {
  Region r = session()->addresses.find(address);
  uint64_t device = 0;
  return r.kind == Region::pinned ? map_host_memory(r, c, device) : CUDA_SUCCESS;
}

CUresult map_pinned_parameters(Context* c, const Function* f, const KernelParams& params) {
  CUresult result = CUDA_SUCCESS;
  put_params(f, params, [&](const void* p, uint32_t n) {
    uint64_t value;
    for (uint32_t at = 0; at + sizeof value <= n; at += sizeof value) {
      std::memcpy(&value, (const char*)p + at, sizeof value);
      if (may_be_pinned(value) && !result) result = map_pinned(c, value);
    }
  });
  return result;
}

}  // namespace busbar::client

#include "client/mapped.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "client/context.h"
#include "client/device_memory.h"
#include "client/host_mirror_count.h"
#include "client/session.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPage = 4096;

struct Mapped {
  uint8_t* host = nullptr;
  uint64_t bytes = 0, device = 0;  // size of both copies; address of the device copy
  Context* context = nullptr;
  std::vector<uint8_t> synced;  // content at the last synchronization
  bool used = false;            // work was submitted since then
};

struct Table {
  std::mutex mutex;
  std::map<uint64_t, Mapped> mappings;  // by host address
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

// Copies the bytes that kernels have changed to host memory. Call with the lock.
CUresult fetch(Mapped& m) {
  Context* c = m.context;
  std::vector<uint8_t> now(m.bytes);
  uint64_t position = 0;
  if (CUresult r = submit_download(c, now.data(), m.device, m.bytes, position)) return r;
  if (CUresult r = wait_for(&c->legacy, position)) return r;
  differences(now.data(), m.synced.data(), m.bytes, [&](uint64_t offset, uint64_t n) {
    for (uint64_t i = offset; i < offset + n; ++i)
      if (now[i] != m.synced[i]) m.host[i] = now[i];  // keeps the changes of the program
    std::memcpy(m.synced.data() + offset, now.data() + offset, n);
  });
  m.used = false;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult flush_mapped(Stream& s) {
  std::lock_guard lock(table().mutex);
  bool sent = false;
  for (auto& [host, m] : table().mappings) {
    if (m.context->device != s.context->device) continue;
    CUresult r = CUDA_SUCCESS;
    differences(m.host, m.synced.data(), m.bytes, [&](uint64_t offset, uint64_t n) {
      if (!r) r = submit_upload(m.context, m.device + offset, m.host + offset, n);
      std::memcpy(m.synced.data() + offset, m.host + offset, n);
      sent = true;
    });
    if (r) return r;
    m.used = true;
  }
  // The legacy stream does not order the upload before work of these streams.
  bool unordered = sent && ((s.flags & CU_STREAM_NON_BLOCKING) || s.capturing);
  return unordered ? wait_for_submitted(&s.context->legacy) : CUDA_SUCCESS;
}

CUresult fetch_mapped(Context* c) {
  std::lock_guard lock(table().mutex);
  for (auto& [host, m] : table().mappings)
    if (m.used && m.context->device == c->device)
      if (CUresult r = fetch(m)) return r;
  return CUDA_SUCCESS;
}

bool is_mapped(CUdeviceptr p) {
  std::lock_guard lock(table().mutex);
  return std::any_of(table().mappings.begin(), table().mappings.end(),
                     [&](auto& entry) { return p - entry.second.device < entry.second.bytes; });
}

void unmap_host_memory(const void* host) {
  std::unique_lock lock(table().mutex);
  auto it = table().mappings.find((uint64_t)host);
  if (it == table().mappings.end()) return;
  Mapped m = it->second;
  table().mappings.erase(it);
  lock.unlock();
  g_host_mirrors--;
  session()->addresses.remove(m.device, Region::device);
  release_device_memory({Region::device, m.device, m.bytes, 0, m.context, 0},
                        submitted_work_done(m.context));
}

CUresult map_host_memory(const Region& r, uint64_t& device) {
  std::lock_guard lock(table().mutex);
  Mapped& m = table().mappings[r.base];
  if (!m.device) {
    if (CUresult e = allocate_device_memory(r.context, r.bytes, m.device)) {
      table().mappings.erase(r.base);
      return e;
    }
    m.host = (uint8_t*)r.base;
    m.bytes = r.bytes;
    m.context = r.context;
    m.synced.assign(m.host, m.host + m.bytes);
    if (CUresult e = submit_upload(m.context, m.device, m.host, m.bytes)) return e;
    if (CUresult e = wait_for_submitted(&m.context->legacy)) return e;
    session()->addresses.add({Region::device, m.device, m.bytes, 0, m.context, 0});
    g_host_mirrors++;
  }
  device = m.device;
  return CUDA_SUCCESS;
}

}  // namespace busbar::client

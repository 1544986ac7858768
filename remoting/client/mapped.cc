// Host memory that kernels reach by a device pointer: a copy of it in device memory, made when the
// program asks for that pointer. What changed is found by comparing pages with what the node last
// saw. A kernel that waits for the host to write such memory, or the other way round, cannot work
// over a network.
#include <algorithm>
#include <cstring>
#include <map>

#include "client/call.h"
#include "client/mirror.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPage = 4096;

struct Mapped {
  uint8_t* host = nullptr;
  uint64_t bytes = 0, device = 0;
  Context* context = nullptr;
  std::vector<uint8_t> seen;  // what both sides last agreed on
  bool used = false;          // work was submitted since
};

struct Table {
  std::mutex mutex;
  std::map<uint64_t, Mapped> of;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

// Calls f(offset, n) for every run of pages that differ.
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

CUresult fetch(Mapped& m) {
  Context* c = m.context;
  std::vector<uint8_t> now(m.bytes);
  Link* link = c->device->link;
  wire::Encoder<> e(wire::Op::copy_out, c->id, c->legacy.id);
  e.put(m.device).put(m.bytes).put(link->expect(now.data(), m.bytes));
  uint64_t at = link->submit(e.finish(), e.size());
  if (!at) return link->error();
  submitted(&c->legacy, at);
  if (CUresult r = wait_for(&c->legacy, at)) return r;
  differences(now.data(), m.seen.data(), m.bytes, [&](uint64_t offset, uint64_t n) {
    for (uint64_t i = offset; i < offset + n; ++i)
      if (now[i] != m.seen[i]) m.host[i] = now[i];  // what the program wrote beside it stays
    std::memcpy(m.seen.data() + offset, now.data() + offset, n);
  });
  m.used = false;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult flush_mapped(Stream& s) {
  std::lock_guard lock(table().mutex);
  bool sent = false;
  for (auto& [host, m] : table().of) {
    if (m.context->device != s.context->device) continue;
    CUresult r = CUDA_SUCCESS;
    differences(m.host, m.seen.data(), m.bytes, [&](uint64_t offset, uint64_t n) {
      if (!r) r = send_in(m.context, m.device + offset, m.host + offset, n);
      std::memcpy(m.seen.data() + offset, m.host + offset, n);
      sent = true;
    });
    if (r) return r;
    m.used = true;
  }
  bool unordered = sent && ((s.flags & CU_STREAM_NON_BLOCKING) || s.capturing);
  return unordered ? wait_for(&s.context->legacy, s.context->legacy.progress.last.load())
                   : CUDA_SUCCESS;
}

CUresult fetch_mapped(Context* c) {
  std::lock_guard lock(table().mutex);
  for (auto& [host, m] : table().of)
    if (m.used && m.context->device == c->device)
      if (CUresult r = fetch(m)) return r;
  return CUDA_SUCCESS;
}

bool is_mapped(CUdeviceptr p) {
  std::lock_guard lock(table().mutex);
  return std::any_of(table().of.begin(), table().of.end(),
                     [&](auto& entry) { return p - entry.second.device < entry.second.bytes; });
}

void forget_mapped(const void* host) {
  std::unique_lock lock(table().mutex);
  auto it = table().of.find((uint64_t)host);
  if (it == table().of.end()) return;
  Mapped m = it->second;
  table().of.erase(it);
  lock.unlock();
  g_mirrors--;
  session()->addresses.remove(m.device, Region::device);
  release_device({Region::device, m.device, m.bytes, 0, m.context, 0}, all_work_done(m.context));
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned flags) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  Region r = session()->addresses.find((uint64_t)p);
  if (!out || flags || !r.on_host()) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(table().mutex);
  Mapped& m = table().of[r.base];
  if (!m.device) {
    if (CUresult e = allocate_device(r.context, r.bytes, m.device)) {
      table().of.erase(r.base);
      return e;
    }
    m.host = (uint8_t*)r.base;
    m.bytes = r.bytes;
    m.context = r.context;
    m.seen.assign(m.host, m.host + m.bytes);
    if (CUresult e = send_in(m.context, m.device, m.host, m.bytes)) return e;
    if (CUresult e = wait_for(&m.context->legacy, m.context->legacy.progress.last.load())) return e;
    session()->addresses.add({Region::device, m.device, m.bytes, 0, m.context, 0});
    g_mirrors++;
  }
  *out = m.device + ((uint64_t)p - r.base);
  return CUDA_SUCCESS;
}

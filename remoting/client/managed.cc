#include "client/managed.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "checked_size.h"
#include "client/context.h"
#include "client/device_memory.h"
#include "client/host_mirror_count.h"
#include "client/managed_faults.h"
#include "client/session.h"
#include "mutex.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPage = kManagedPage;
constexpr uint64_t kChunk = 64 << 10;  // unit of ownership
// Owner of a chunk. `clean`: the program may read it; `dirty`: it may have written to it.
enum State : uint8_t { gpu, clean, dirty };

struct Managed {
  uint64_t base = 0, bytes = 0;            // the program's range, page-aligned
  uint64_t allocation = 0, allocated = 0;  // address and bytes in the device's heap
  Context* context = nullptr;
  std::vector<State> state;  // of each chunk
  std::unique_ptr<ManagedPages> pages;
};

struct Table {
  Mutex mutex;
  std::map<uint64_t, Managed> allocations GUARDED_BY(mutex);  // by base
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

Managed* find(uint64_t p) REQUIRES(table().mutex) {
  auto it = table().allocations.upper_bound(p);
  if (it == table().allocations.begin()) return nullptr;
  --it;
  return p < it->first + it->second.bytes ? &it->second : nullptr;
}

uint64_t offset_of(size_t chunk) {
  return (CheckedSize(chunk) * kChunk).value();
}

struct Range {
  uint64_t offset, bytes;
};
Range range_of(const Managed& m, size_t chunk, size_t count) {
  uint64_t offset = offset_of(chunk);
  return {offset, std::min(offset_of(count), m.bytes - offset)};
}

// Return the number of chunks from `first` on that have the same state.
size_t run_at(const Managed& m, size_t first) {
  size_t n = 1;
  while (first + n < m.state.size() && m.state[first + n] == m.state[first]) ++n;
  return n;
}

void set_state(Managed& m, size_t first, size_t count, State state) {
  std::fill_n(m.state.begin() + (ptrdiff_t)first, count, state);
}

// Takes chunks from the GPU, for reads.
CUresult fetch(Managed& m, size_t first, size_t count) {
  Context* c = m.context;
  if (CUresult r = synchronize(c)) return r;
  auto [offset, n] = range_of(m, first, count);
  uint64_t position = 0;
  if (CUresult r = submit_download(c, m.pages->inbox(offset), m.base + offset, n, position))
    return r;
  if (CUresult r = wait_for(&c->legacy, position)) return r;
  if (!m.pages->make_readable(offset, n)) return CUDA_ERROR_OUT_OF_MEMORY;
  set_state(m, first, count, clean);
  return CUDA_SUCCESS;
}

// Takes `count` chunks for the program, and permits writes to the first one.
CUresult give_access(Managed& m, size_t first, size_t count, const PageFault& fault) {
  auto [offset, bytes] = range_of(m, first, 1);
  if (m.state[first] == gpu) {
    if (CUresult r = fetch(m, first, count)) return r;
  } else if (fault.absent && !m.pages->fill_absent(offset, bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!fault.write) return CUDA_SUCCESS;
  if (!m.pages->make_writable(offset, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  m.state[first] = dirty;
  return CUDA_SUCCESS;
}

void explain_refusal(uint64_t address, CUresult reason) {
  static bool explained = false;
  if (explained) return;
  explained = true;
  // Not through stderr, whose lock the thread that faulted may hold.
  dprintf(STDERR_FILENO,
          "busbar: managed memory at 0x%llx is not available (CUDA error %d): SIGSEGV\n",
          (unsigned long long)address, (int)reason);
}

bool resolve_managed_fault(const PageFault& fault) {
  MutexLock lock(table().mutex);
  Managed* m = find(fault.address);
  if (!m) return false;
  size_t i = (fault.address - m->base) / kChunk;
  size_t n = m->state[i] == gpu ? std::min<size_t>(run_at(*m, i), kManagedFetchBytes / kChunk) : 1;
  auto [offset, bytes] = range_of(*m, i, n);
  if (CUresult r = give_access(*m, i, n, fault)) {
    explain_refusal(fault.address, r);
    m->pages->refuse(offset, bytes);
    return false;
  }
  m->pages->wake(offset, bytes);
  return true;
}

// Gives chunks of one state to the GPU, with what the program has written.
CUresult hand_over(Managed& m, size_t first, size_t count) {
  auto [offset, bytes] = range_of(m, first, count);
  if (m.state[first] == dirty) {
    const uint8_t* content = m.pages->freeze(offset, bytes);
    if (!content) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult r = submit_upload(m.context, m.base + offset, content, bytes)) return r;
  }
  if (!m.pages->take(offset, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  set_state(m, first, count, gpu);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult allocate_managed(Context* c, size_t bytes, unsigned flags, CUdeviceptr& out) {
  if (!c->device->heap) return CUDA_ERROR_NOT_SUPPORTED;
  Managed m;
  CheckedSize rounded = CheckedSize(bytes).rounded_up(kPage), allocated = rounded + kPage;
  if (!allocated.valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  m.bytes = rounded.value();
  m.allocated = allocated.value();
  if (CUresult r = allocate_device_memory(c, m.allocated, m.allocation)) return r;
  m.base = (m.allocation + kPage - 1) & ~(kPage - 1);
  m.context = c;
  m.state.assign((m.bytes + kChunk - 1) / kChunk, clean);
  {
    MutexLock lock(table().mutex);
    m.pages = map_managed_pages(m.base, m.bytes, resolve_managed_fault);
  }
  if (!m.pages) {
    release_device_memory({Region::device, m.allocation, m.allocated, 0, c, 0},
                          [] { return true; });
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  session()->addresses.add({Region::managed, m.base, bytes, 0, c, flags});
  out = m.base;
  MutexLock lock(table().mutex);
  table().allocations[out] = std::move(m);
  g_host_mirrors++;
  return CUDA_SUCCESS;
}

CUresult flush_managed(Stream& s) {
  MutexLock lock(table().mutex);
  keep_managed_faults();
  bool sent = false;
  for (auto& [base, m] : table().allocations) {
    if (m.context->device != s.context->device) continue;
    for (size_t i = 0; i < m.state.size();) {
      size_t n = run_at(m, i);
      sent |= m.state[i] == dirty;
      if (m.state[i] != gpu)
        if (CUresult r = hand_over(m, i, n)) return r;
      i += n;
    }
  }
  // The legacy stream does not order the upload before work of these streams.
  bool unordered = sent && ((s.flags & CU_STREAM_NON_BLOCKING) || s.capturing);
  return unordered ? wait_for_submitted(&s.context->legacy) : CUDA_SUCCESS;
}

bool free_managed(CUdeviceptr p, CUresult& result) {
  Managed m;
  {
    MutexLock lock(table().mutex);
    auto it = table().allocations.find(p);
    if (it == table().allocations.end()) return false;
    // Without its entry a fault is not resolved: an access before the unmapping would try for ever.
    it->second.pages->refuse(0, it->second.bytes);
    m = std::move(it->second);
    table().allocations.erase(it);
  }
  g_host_mirrors--;
  result = synchronize(m.context);
  m.pages.reset();
  session()->addresses.remove(p, Region::managed);
  release_device_memory({Region::device, m.allocation, m.allocated, 0, m.context, 0},
                        submitted_work_done(m.context));
  return true;
}

}  // namespace busbar::client

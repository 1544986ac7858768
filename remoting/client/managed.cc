#include "client/managed.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "checked_size.h"
#include "client/context.h"
#include "client/device_memory.h"
#include "client/host_mirror_count.h"
#include "client/session.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPage = 4096;
constexpr uint64_t kChunk = 64 << 10;      // unit of ownership
constexpr uint64_t kFetchBytes = 2 << 20;  // fetched by one fault at most
// Owner of a chunk. `clean`: the program may read it; `dirty`: it has written to it.
enum State : uint8_t { gpu, clean, dirty };

struct Managed {
  uint64_t base = 0, bytes = 0;            // the program's range, page-aligned
  uint64_t allocation = 0, allocated = 0;  // address and bytes in the device's heap
  uint8_t* alias = nullptr;                // a second mapping that is always accessible
  Context* context = nullptr;
  std::vector<uint8_t> state;  // State of each chunk
};

struct Table {
  std::mutex mutex;
  std::map<uint64_t, Managed> allocations;  // by base
  struct sigaction before{};                // handler of the program
  bool installed = false;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

// Call with the lock.
Managed* find(uint64_t p) {
  auto it = table().allocations.upper_bound(p);
  if (it == table().allocations.begin()) return nullptr;
  --it;
  return p < it->first + it->second.bytes ? &it->second : nullptr;
}

uint64_t offset_of(size_t chunk) {
  return (CheckedSize(chunk) * kChunk).value();
}

void protect(const Managed& m, size_t i, size_t n, int protection) {
  uint64_t offset = offset_of(i);
  mprotect((void*)(m.base + offset), std::min(offset_of(n), m.bytes - offset), protection);
}

CUresult fetch(Managed& m, size_t first, size_t count) {
  Context* c = m.context;
  if (CUresult r = synchronize(c)) return r;
  uint64_t offset = offset_of(first), n = std::min(offset_of(count), m.bytes - offset);
  uint64_t position = 0;
  if (CUresult r = submit_download(c, m.alias + offset, m.base + offset, n, position)) return r;
  return wait_for(&c->legacy, position);
}

// Handles an access to a chunk of the GPU, or a write to a clean one. Returns false if the address
// is no managed memory or the fetch fails.
bool on_fault(uint64_t address, bool write) {
  std::lock_guard lock(table().mutex);
  Managed* m = find(address);
  if (!m) return false;
  size_t i = (address - m->base) / kChunk;
  if (m->state[i] == gpu) {
    size_t n = 1;
    while (offset_of(n) < kFetchBytes && i + n < m->state.size() && m->state[i + n] == gpu) ++n;
    if (fetch(*m, i, n)) return false;
    protect(*m, i, n, PROT_READ);
    std::fill_n(m->state.begin() + (ptrdiff_t)i, n, clean);
  }
  if (write) {
    protect(*m, i, 1, PROT_READ | PROT_WRITE);
    m->state[i] = dirty;
  }
  return true;
}

// Passes faults on other memory to the handler that was installed before.
void handler(int number, siginfo_t* info, void* context) {
  bool write = ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2;
  int saved = errno;
  if (on_fault((uint64_t)info->si_addr, write)) {
    errno = saved;
    return;
  }
  struct sigaction& before = table().before;
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(number);
  else
    sigaction(SIGSEGV, &before, nullptr);
}

// Call with the lock.
void install_handler() {
  if (table().installed) return;
  struct sigaction a{};
  a.sa_sigaction = handler;
  a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&a.sa_mask);
  sigaction(SIGSEGV, &a, &table().before);
  table().installed = true;
}

// Maps the range and its alias to the same pages.
bool map_both(Managed& m) {
  int fd = memfd_create("busbar-managed", MFD_CLOEXEC);
  if (fd < 0) return false;
  bool mapped =
      ftruncate(fd, (off_t)m.bytes) == 0 &&
      mmap((void*)m.base, m.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
  void* alias =
      mapped ? mmap(nullptr, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (alias == MAP_FAILED) return false;
  m.alias = (uint8_t*)alias;
  return true;
}

// Returns the range to the reservation of the arena.
void unmap_both(const Managed& m) {
  (void)mmap((void*)m.base, m.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  munmap(m.alias, m.bytes);
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
  if (!map_both(m)) {
    release_device_memory({Region::device, m.allocation, m.allocated, 0, c, 0},
                          [] { return true; });
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  session()->addresses.add({Region::managed, m.base, bytes, 0, c, flags});
  std::lock_guard lock(table().mutex);
  install_handler();
  table().allocations[m.base] = m;
  g_host_mirrors++;
  out = m.base;
  return CUDA_SUCCESS;
}

CUresult flush_managed(Stream& s) {
  std::lock_guard lock(table().mutex);
  bool sent = false;
  for (auto& [base, m] : table().allocations) {
    if (m.context->device != s.context->device) continue;
    for (size_t i = 0; i < m.state.size();) {
      if (m.state[i] == gpu) {
        ++i;
        continue;
      }
      size_t n = 1;
      while (i + n < m.state.size() && m.state[i + n] == m.state[i]) ++n;
      protect(m, i, n, PROT_NONE);
      uint64_t offset = offset_of(i), bytes = std::min(offset_of(n), m.bytes - offset);
      if (m.state[i] == dirty) {
        if (CUresult r = submit_upload(m.context, base + offset, m.alias + offset, bytes)) return r;
        sent = true;
      }
      std::fill_n(m.state.begin() + (ptrdiff_t)i, n, gpu);
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
    std::lock_guard lock(table().mutex);
    auto it = table().allocations.find(p);
    if (it == table().allocations.end()) return false;
    m = it->second;
    table().allocations.erase(it);
  }
  g_host_mirrors--;
  result = synchronize(m.context);
  unmap_both(m);
  session()->addresses.remove(p, Region::managed);
  release_device_memory({Region::device, m.allocation, m.allocated, 0, m.context, 0},
                        submitted_work_done(m.context));
  return true;
}

}  // namespace busbar::client

// Managed memory: the same address on both sides. Pages are the program's or the GPU's. A launch
// sends what the program wrote and takes its access away; the first touch afterwards waits for the
// GPU and fetches. (CONCURRENT_MANAGED_ACCESS is 0: the API itself forbids touching it while the
// GPU works.) A system call on a page that is the GPU's answers EFAULT.
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "client/call.h"
#include "client/mirror.h"

namespace busbar::client {

std::atomic<int> g_mirrors{0};

namespace {
constexpr uint64_t kPage = 4096, kChunk = 64 << 10, kFetchBytes = 2 << 20;
enum State : uint8_t { gpu, clean, dirty };  // whose a chunk is; clean: the program may read it

struct Managed {
  uint64_t base = 0, bytes = 0;            // as the program sees it
  uint64_t allocation = 0, allocated = 0;  // in the device's heap
  uint8_t* alias = nullptr;                // the same pages, always accessible, for us alone
  Context* context = nullptr;
  std::vector<uint8_t> state;
};

struct Table {
  std::mutex mutex;
  std::map<uint64_t, Managed> of;
  struct sigaction before{};
  bool installed = false;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

Managed* find(uint64_t p) {  // call with the lock
  auto it = table().of.upper_bound(p);
  if (it == table().of.begin()) return nullptr;
  --it;
  return p < it->first + it->second.bytes ? &it->second : nullptr;
}

void protect(const Managed& m, size_t i, size_t n, int how) {
  mprotect((void*)(m.base + i * kChunk), std::min(n * kChunk, m.bytes - i * kChunk), how);
}

CUresult fetch(Managed& m, size_t first, size_t count) {
  Context* c = m.context;
  if (CUresult r = synchronize(c)) return r;
  uint64_t offset = first * kChunk, n = std::min(count * kChunk, m.bytes - offset);
  Link* link = c->device->link;
  wire::Encoder<> e(wire::Op::copy_out, c->id, c->legacy.id);
  e.put(m.base + offset).put(n).put(link->expect(m.alias + offset, n));
  uint64_t at = link->submit(e.finish(), e.size());
  if (!at) return link->error();
  submitted(&c->legacy, at);
  return wait_for(&c->legacy, at);
}

// The program touched a chunk that is not its own, or wrote to one that it may only read.
bool on_fault(uint64_t address, bool write) {
  std::lock_guard lock(table().mutex);
  Managed* m = find(address);
  if (!m) return false;
  size_t i = (address - m->base) / kChunk;
  if (m->state[i] == gpu) {
    size_t n = 1;
    while (n * kChunk < kFetchBytes && i + n < m->state.size() && m->state[i + n] == gpu) ++n;
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

void handler(int number, siginfo_t* info, void* context) {
  bool write = ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2;
  int saved = errno;
  if (on_fault((uint64_t)info->si_addr, write)) {
    errno = saved;
    return;
  }
  struct sigaction& before = table().before;  // not ours: whoever was here first
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(number);
  else
    sigaction(SIGSEGV, &before, nullptr);
}

void install() {  // call with the lock
  if (table().installed) return;
  struct sigaction a{};
  a.sa_sigaction = handler;
  a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&a.sa_mask);
  sigaction(SIGSEGV, &a, &table().before);
  table().installed = true;
}

bool map_both(Managed& m) {
  int fd = memfd_create("busbar-managed", MFD_CLOEXEC);
  if (fd < 0) return false;
  bool fine = ftruncate(fd, (off_t)m.bytes) == 0 &&
              mmap((void*)m.base, m.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
  void* alias =
      fine ? mmap(nullptr, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (alias == MAP_FAILED) return false;
  m.alias = (uint8_t*)alias;
  return true;
}

void unmap_both(const Managed& m) {
  mmap((void*)m.base, m.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
       -1, 0);  // the arena's reservation again
  munmap(m.alias, m.bytes);
}
}  // namespace

CUresult flush_managed(Stream& s) {
  std::lock_guard lock(table().mutex);
  bool sent = false;
  for (auto& [base, m] : table().of) {
    if (m.context->device != s.context->device) continue;
    for (size_t i = 0; i < m.state.size();) {
      if (m.state[i] == gpu) {
        ++i;
        continue;
      }
      size_t n = 1;
      while (i + n < m.state.size() && m.state[i + n] == m.state[i]) ++n;
      protect(m, i, n, PROT_NONE);
      uint64_t offset = i * kChunk, bytes = std::min(n * kChunk, m.bytes - offset);
      if (m.state[i] == dirty) {
        if (CUresult r = send_in(m.context, base + offset, m.alias + offset, bytes)) return r;
        sent = true;
      }
      std::fill_n(m.state.begin() + (ptrdiff_t)i, n, gpu);
      i += n;
    }
  }
  bool unordered = sent && ((s.flags & CU_STREAM_NON_BLOCKING) || s.capturing);
  return unordered ? wait_for(&s.context->legacy, s.context->legacy.progress.last.load())
                   : CUDA_SUCCESS;
}

CUresult flush_mirrors(Stream& s) {
  if (CUresult r = flush_managed(s)) return r;
  return flush_mapped(s);
}

// False when it was not managed memory.
bool free_managed(CUdeviceptr p, CUresult& r) {
  Managed m;
  {
    std::lock_guard lock(table().mutex);
    auto it = table().of.find(p);
    if (it == table().of.end()) return false;
    m = it->second;
    table().of.erase(it);
  }
  g_mirrors--;
  r = synchronize(m.context);
  unmap_both(m);
  session()->addresses.remove(p, Region::managed);
  release_device({Region::device, m.allocation, m.allocated, 0, m.context, 0},
                 all_work_done(m.context));
  return true;
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r

API CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  CURRENT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  if (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  if (!c->device->heap)
    return CUDA_ERROR_NOT_SUPPORTED;  // it needs addresses that both sides can choose
  Managed m;
  m.bytes = (bytes + kPage - 1) & ~(kPage - 1);
  m.allocated = m.bytes + kPage;
  if (CUresult r = allocate_device(c, m.allocated, m.allocation)) return r;
  m.base = (m.allocation + kPage - 1) & ~(kPage - 1);
  m.context = c;
  m.state.assign((m.bytes + kChunk - 1) / kChunk, clean);
  if (!map_both(m)) {
    release_device({Region::device, m.allocation, m.allocated, 0, c, 0}, [] { return true; });
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  session()->addresses.add({Region::managed, m.base, bytes, 0, c, flags});
  std::lock_guard lock(table().mutex);
  install();
  table().of[m.base] = m;
  g_mirrors++;
  *out = m.base;
  return CUDA_SUCCESS;
}

// ---- hints: they move pages sooner, and a touch moves them anyway ----
static CUresult check_managed(CUdeviceptr p, size_t n) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  return n && session()->addresses.find(p).kind == Region::managed &&
                 session()->addresses.device_range(p, n)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
#undef cuMemPrefetchAsync
#undef cuMemAdvise
API CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t n, CUmemLocation, unsigned flags,
                                   CUstream s) {
  Call call;
  if (CUresult r = call.begin(s)) return r;
  return flags ? CUDA_ERROR_INVALID_VALUE : check_managed(p, n);
}
API CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice, CUstream s) {
  return cuMemPrefetchAsync_v2(p, n, {CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 0, s);
}
API CUresult cuMemAdvise_v2(CUdeviceptr p, size_t n, CUmem_advise advice, CUmemLocation) {
  return advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY
             ? CUDA_ERROR_INVALID_VALUE
             : check_managed(p, n);
}
API CUresult cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice) {
  return cuMemAdvise_v2(p, n, advice, {});
}
API CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr p, size_t n, unsigned flags) {
  Call call;
  if (CUresult r = call.begin(s)) return r;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  return check_managed(p, n ? n : 1);
}
API CUresult cuMemRangeGetAttribute(void* data, size_t bytes, CUmem_range_attribute which,
                                    CUdeviceptr p, size_t n) {
  if (CUresult r = check_managed(p, n)) return r;
  if (!data || bytes < 4) return CUDA_ERROR_INVALID_VALUE;
  std::memset(data, 0, bytes);
  if (which == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
      which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
    *(int*)data = CU_DEVICE_INVALID;
  if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
    std::fill_n((int*)data, bytes / 4, (int)CU_DEVICE_INVALID);
  return CUDA_SUCCESS;
}
API CUresult cuMemRangeGetAttributes(void** data, size_t* bytes, CUmem_range_attribute* which,
                                     size_t count, CUdeviceptr p, size_t n) {
  if (!data || !bytes || !which || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (CUresult r = cuMemRangeGetAttribute(data[i], bytes[i], which[i], p, n)) return r;
  return CUDA_SUCCESS;
}

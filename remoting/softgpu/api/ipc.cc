// CUDA entry points: memory and events that processes of one user share.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/ipc_handle.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/shared_event.h"
#include "softgpu/driver/shared_file.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr p) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  uint64_t base, bytes;
  {
    std::lock_guard lock(driver()->mutex);
    const Allocation* a = find_allocation(p);
    if (!a || a->kind != Allocation::device) return CUDA_ERROR_INVALID_VALUE;
    base = a->base;
    bytes = CheckedSize(a->bytes).rounded_up(4096).value();
  }
  if (CUresult r = wait_for_context(c)) return r;
  int fd = shared_file(base, bytes);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  IpcHandle h;
  if (!make_ipc_handle(IpcKind::memory, c->device->index, fd, h)) return CUDA_ERROR_INVALID_HANDLE;
  write_ipc_handle(h, out);
  return CUDA_SUCCESS;
}

namespace {
// Memory that a context has opened, once for all its opens of a handle.
struct OpenedMemory {
  Context* context;
  CUipcMemHandle handle;
  CUdeviceptr address;
  unsigned opens;
};
std::vector<OpenedMemory>& opened_memory() {  // guarded by Driver::mutex
  static auto* v = new std::vector<OpenedMemory>;
  return *v;
}
}  // namespace

static bool open_again(Context* c, const CUipcMemHandle& handle, CUdeviceptr* out) {
  std::lock_guard lock(driver()->mutex);
  for (auto& o : opened_memory())
    if (o.context == c && !std::memcmp(&o.handle, &handle, sizeof handle)) {
      ++o.opens;
      *out = o.address;
      return true;
    }
  return false;
}

// NVIDIA's driver ignores unknown flags.
API CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle in, unsigned) {
  REQUIRE_CURRENT_CONTEXT(c);
  IpcHandle h = read_ipc_handle(in);
  if (!out || h.kind != IpcKind::memory) return CUDA_ERROR_INVALID_VALUE;
  if (h.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  if (open_again(c, in, out)) return CUDA_SUCCESS;
  int fd = open_ipc_handle(h, IpcKind::memory, c->device->index);
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t at = map_private(h.bytes);
  bool mapped = at && mmap((void*)at, h.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                           0) != MAP_FAILED;
  close(fd);
  if (!mapped) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(driver()->mutex);
  driver()->allocations[at] = {Allocation::mapped, at, h.bytes, 0, c, 0, c->device->ordinal,
                               driver()->next_id++};
  opened_memory().push_back({c, in, at, 1});
  *out = at;
  return CUDA_SUCCESS;
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = wait_for_context(c)) return r;
  std::lock_guard lock(driver()->mutex);
  auto it = driver()->allocations.find(p);
  if (it == driver()->allocations.end() || it->second.kind != Allocation::mapped ||
      it->second.context != c)
    return CUDA_ERROR_INVALID_VALUE;
  auto& opened = opened_memory();
  auto o =
      std::find_if(opened.begin(), opened.end(), [&](auto& entry) { return entry.address == p; });
  if (o != opened.end() && --o->opens) return CUDA_SUCCESS;
  if (o != opened.end()) opened.erase(o);
  unmap_private(p, it->second.bytes);
  driver()->allocations.erase(it);
  return CUDA_SUCCESS;
}

API CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent event) {
  REQUIRE_DRIVER();
  auto* e = (EventState*)event;
  if (!e || !out) return CUDA_ERROR_INVALID_VALUE;
  if (!is_live(e)) return CUDA_ERROR_INVALID_HANDLE;
  IpcHandle h;
  if (!e->shared ||
      !make_ipc_handle(IpcKind::event, e->context->device->index, e->shared->file(), h))
    return CUDA_ERROR_INVALID_HANDLE;
  write_ipc_handle(h, out);
  return CUDA_SUCCESS;
}

API CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle in) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  IpcHandle h = read_ipc_handle(in);
  if (h.kind != IpcKind::event) return CUDA_ERROR_MAP_FAILED;
  if (h.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  int fd = open_ipc_handle(h, IpcKind::event, c->device->index);
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  auto shared = SharedEvent::open(fd);
  if (!shared) return CUDA_ERROR_MAP_FAILED;
  auto* e = new EventState;
  e->context = c;
  e->timed = false;
  e->shared = std::move(shared);
  add_handle(e);
  *out = (CUevent)e;
  return CUDA_SUCCESS;
}

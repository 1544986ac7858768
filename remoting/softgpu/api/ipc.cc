// CUDA entry points: memory that processes of one user share.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/shared_file.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

namespace {
// The contents of a CUipcMemHandle.
struct Handle {
  uint32_t magic, ordinal;  // of the device
  int32_t pid, fd;          // of the process that shares the memory
  uint64_t start_time;      // of that process: its pid may be reused
  uint64_t bytes, inode;    // of the file
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));
constexpr uint32_t kMagic = 0x43504953;

// Return the start time of a process in clock ticks; 0 if there is no such process.
uint64_t process_start_time(pid_t pid) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* p = std::strrchr(text, ')');
  if (!p || p[1] != ' ' || p[2] == 'Z') return 0;
  for (int field = 2; p && field < 22; ++field) p = std::strchr(p + 1, ' ');
  return p ? std::strtoull(p + 1, nullptr, 10) : 0;
}
}  // namespace

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
  struct stat st;
  if (fstat(fd, &st)) return CUDA_ERROR_INVALID_HANDLE;
  Handle h{kMagic,   (uint32_t)c->device->ordinal, getpid(),
           fd,       process_start_time(getpid()), bytes,
           st.st_ino};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &h, sizeof h);
  return CUDA_SUCCESS;
}

API CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle in, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  Handle h;
  std::memcpy(&h, &in, sizeof h);
  if (!out || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  if (h.magic != kMagic || h.pid == getpid() || h.ordinal != (uint32_t)c->device->ordinal ||
      process_start_time(h.pid) != h.start_time)
    return CUDA_ERROR_INVALID_HANDLE;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat st;
  bool same =
      fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == h.inode && (uint64_t)st.st_size == h.bytes;
  uint64_t at = same ? map_private(h.bytes) : 0;
  bool mapped = at && mmap((void*)at, h.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                           0) != MAP_FAILED;
  if (fd >= 0) close(fd);
  if (!mapped) return same ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(driver()->mutex);
  driver()->allocations[at] = {Allocation::mapped, at, h.bytes, 0, c, 0, (int)h.ordinal,
                               driver()->next_id++};
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
  unmap_private(p, it->second.bytes);
  driver()->allocations.erase(it);
  return CUDA_SUCCESS;
}

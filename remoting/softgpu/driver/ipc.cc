// Memory of one process in another of the same user: the allocation moves into a file without a
// name, which the other opens by process and number.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "softgpu/driver/graph.h"

namespace softgpu {

namespace {
struct Handle {
  uint32_t magic, ordinal;
  int32_t pid, fd;
  uint64_t start_time, bytes, inode;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));
constexpr uint32_t kMagic = 0x43504953;

std::map<uint64_t, int>& files() {
  static auto* m = new std::map<uint64_t, int>;
  return *m;
}  // of allocations that were shared
std::mutex& files_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

// Replaces the pages of an allocation by those of a file with the same bytes. Nothing may run on
// them meanwhile.
int move_to_file(uint64_t base, uint64_t bytes) {
  int fd = memfd_create("softgpu-ipc", MFD_CLOEXEC);
  if (fd < 0) return -1;
  bool fine = ftruncate(fd, (off_t)bytes) == 0;
  for (uint64_t at = 0; fine && at < bytes;) {
    ssize_t n = pwrite(fd, (const void*)(base + at), bytes - at, (off_t)at);
    fine = n > 0;
    at += fine ? (uint64_t)n : 0;
  }
  fine = fine && mmap((void*)base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
                     MAP_FAILED;
  if (!fine) {
    close(fd);
    return -1;
  }
  return fd;
}
}  // namespace

void forget_ipc(uint64_t base) {
  std::lock_guard lock(files_mutex());
  auto it = files().find(base);
  if (it == files().end()) return;
  close(it->second);
  files().erase(it);
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r

API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr p) {
  CURRENT(c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  uint64_t base, bytes;
  {
    std::lock_guard lock(driver()->mutex);
    const Allocation* a = find_allocation(p);
    if (!a || a->kind != Allocation::device) return CUDA_ERROR_INVALID_VALUE;
    base = a->base;
    bytes = (a->bytes + 4095) & ~4095ull;
  }
  if (CUresult r = wait_for_context(c)) return r;
  std::lock_guard lock(files_mutex());
  auto it = files().find(base);
  if (it == files().end()) {
    int fd = move_to_file(base, bytes);
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    it = files().emplace(base, fd).first;
  }
  struct stat st;
  if (fstat(it->second, &st)) return CUDA_ERROR_INVALID_HANDLE;
  Handle h{kMagic,     (uint32_t)c->device->ordinal, getpid(),
           it->second, process_start_time(getpid()), bytes,
           st.st_ino};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &h, sizeof h);
  return CUDA_SUCCESS;
}

API CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle in, unsigned flags) {
  CURRENT(c);
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
  CURRENT(c);
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

#include "softgpu/driver/ipc_handle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace softgpu {

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

bool make_ipc_handle(IpcKind kind, int device, int fd, IpcHandle& out) {
  struct stat st;
  if (fstat(fd, &st)) return false;
  out = {
      kind,     (uint32_t)device, getpid(), fd, process_start_time(getpid()), (uint64_t)st.st_size,
      st.st_ino};
  return true;
}

int open_ipc_handle(const IpcHandle& h, IpcKind kind, int device) {
  if (h.kind != kind || h.pid == getpid() || h.device != (uint32_t)device ||
      process_start_time(h.pid) != h.start_time)
    return -1;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat st;
  if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == h.inode && (uint64_t)st.st_size == h.bytes)
    return fd;
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace softgpu

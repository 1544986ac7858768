#include "softgpu/driver/shared_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace softgpu {

namespace {
// Files of shared allocations, by base address.
std::map<uint64_t, int>& files() {
  static auto* m = new std::map<uint64_t, int>;
  return *m;
}
std::mutex& files_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

// Replace the pages of an allocation by a file with the same bytes. Return the file, or -1. No
// operation may access the allocation meanwhile.
int move_to_file(uint64_t base, uint64_t bytes) {
  int fd = memfd_create("softgpu-ipc", MFD_CLOEXEC);
  if (fd < 0) return -1;
  bool fine = ftruncate(fd, (off_t)bytes) == 0;
  for (uint64_t at = 0; fine && at < bytes;) {
    auto* from = (const uint8_t*)base + at;
    ssize_t n = pwrite(fd, from, bytes - at, (off_t)at);
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

int shared_file(uint64_t base, uint64_t bytes) {
  std::lock_guard lock(files_mutex());
  auto it = files().find(base);
  if (it != files().end()) return it->second;
  int fd = move_to_file(base, bytes);
  if (fd >= 0) files().emplace(base, fd);
  return fd;
}

void close_shared_file(uint64_t base) {
  std::lock_guard lock(files_mutex());
  auto it = files().find(base);
  if (it == files().end()) return;
  close(it->second);
  files().erase(it);
}

}  // namespace softgpu

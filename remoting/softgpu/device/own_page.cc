#include "softgpu/device/own_page.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "softgpu/device/device_config.h"

namespace softgpu {

namespace {
// Return the page of an empty file. Its memory is allocated, so that no reader fails later.
UsePage* map_page(int fd) {
  static const char empty[kUsePageBytes] = {};
  if (pwrite(fd, empty, sizeof empty, 0) != (ssize_t)sizeof empty) return nullptr;
  void* at = mmap(nullptr, kUsePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* page = new (at) UsePage{};
  page->pid = getpid();
  return page;
}

OwnPage make_page() {
  const char* variable = std::getenv(kUseVariable);
  bool from_spawner = variable && *variable;
  int fd = from_spawner ? std::atoi(variable) : create_use_file(state_directory()).fd;
  struct stat st;
  if (fd < 0 || fstat(fd, &st)) return {};
  UsePage* page = map_page(fd);
  close(fd);  // the lock stays as long as the mapping
  return {page, st.st_ino, from_spawner};
}
}  // namespace

const OwnPage& own_page() {
  static const OwnPage own = make_page();
  return own;
}

}  // namespace softgpu

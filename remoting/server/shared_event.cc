#include "server/shared_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

namespace busbar::server {

namespace {
constexpr size_t kPageBytes = 8192;
// The other session cannot take the page away from under this process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int make_page() {
  int fd = memfd_create("event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, kPageBytes) == 0 && fcntl(fd, F_ADD_SEALS, kSeals) == 0) return fd;
  close(fd);
  return -1;
}

bool is_page(int fd) {
  struct stat st;
  int seals = fcntl(fd, F_GET_SEALS);
  return fstat(fd, &st) == 0 && st.st_size == (off_t)kPageBytes && seals >= 0 &&
         (seals & kSeals) == kSeals;
}

bool can_share(const Driver& cu) {
  return cu.cuMemHostRegister && cu.cuMemHostUnregister && cu.cuMemHostGetDevicePointer &&
         cu.cuStreamWriteValue32_v2 && cu.cuStreamWaitValue32_v2;
}
}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::create(Driver& cu) {
  return map(cu, make_page());
}

std::shared_ptr<SharedEvent> SharedEvent::open(Driver& cu, int descriptor) {
  return map(cu, descriptor);
}

std::shared_ptr<SharedEvent> SharedEvent::map(Driver& cu, int descriptor) {
  static_assert(sizeof(Page) <= kPageBytes);
  if (descriptor < 0) return nullptr;
  void* at = is_page(descriptor) && can_share(cu)
                 ? mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
                 : MAP_FAILED;
  if (at == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  std::shared_ptr<SharedEvent> e(new SharedEvent(cu, descriptor, (Page*)at));
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  if (cu.cuMemHostRegister(at, kPageBytes, kFlags)) return nullptr;
  if (cu.cuMemHostGetDevicePointer(&e->on_gpu_, at, 0)) {
    cu.cuMemHostUnregister(at);
    e->on_gpu_ = 0;
    return nullptr;
  }
  return e;
}

SharedEvent::~SharedEvent() {
  if (on_gpu_) cu_.cuMemHostUnregister(page_);
  munmap(page_, kPageBytes);
  close(descriptor_);
}

CUdeviceptr SharedEvent::slot(uint32_t record) const {
  // NOLINTNEXTLINE(custom-unchecked-sum): an offset inside of the page
  return on_gpu_ + offsetof(Page, done) + record % kSlots * sizeof(uint32_t);
}

// In the order of their numbers: a slot is free for the next record when the earlier one is
// complete.
void SharedEvent::complete_abandoned(const std::function<bool(uint32_t)>& has_ended) {
  for (uint32_t left = kRemembered; left-- > 0;) {
    uint32_t record = seen_ - left;
    if (is_complete(record) || !is_complete(record - kSlots)) continue;
    if (has_ended(page_->sessions[record % kRemembered])) complete(record);
  }
  seen_ = newest();
}

CUresult SharedEvent::record(CUstream stream, uint32_t record) const {
  if (CUresult r = order_after(stream, record - kSlots)) return r;
  return cu_.cuStreamWriteValue32_v2(stream, slot(record), record, CU_STREAM_WRITE_VALUE_DEFAULT);
}

CUresult SharedEvent::order_after(CUstream stream, uint32_t record) const {
  if (is_complete(record)) return CUDA_SUCCESS;
  return cu_.cuStreamWaitValue32_v2(stream, slot(record), record, CU_STREAM_WAIT_VALUE_GEQ);
}

}  // namespace busbar::server

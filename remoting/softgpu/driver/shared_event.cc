#include "softgpu/driver/shared_event.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/driver/context.h"
#include "softgpu/driver/ipc_handle.h"

namespace softgpu {

namespace {
constexpr size_t kPageBytes = 4096;
constexpr timespec kPause{0, 20'000};    // polling: other processes write the page
constexpr int kPausesUntilLook = 5'000;  // whether the other process has ended
}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::map(int fd) {
  void* at = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) return std::shared_ptr<SharedEvent>(new SharedEvent(fd, (Page*)at));
  close(fd);
  return nullptr;
}

std::shared_ptr<SharedEvent> SharedEvent::create() {
  int fd = memfd_create("softgpu-event", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, kPageBytes) == 0) return map(fd);
  close(fd);
  return nullptr;
}

std::shared_ptr<SharedEvent> SharedEvent::open(int fd) {
  return map(fd);
}

SharedEvent::~SharedEvent() {
  munmap(page_, kPageBytes);
  close(fd_);
}

uint64_t SharedEvent::record() {
  page_->pid = (uint64_t)getpid();
  page_->start_time = process_start_time(getpid());
  return ++page_->newest;
}

// Records on several streams may complete in another order.
void SharedEvent::complete(uint64_t record) {
  uint64_t known = page_->complete;
  while (known < record && !page_->complete.compare_exchange_weak(known, record)) {
  }
}

bool SharedEvent::is_complete(uint64_t record) const {
  return page_->complete >= record;
}

bool SharedEvent::recorder_has_ended() const {
  return process_start_time((pid_t)page_->pid.load()) != page_->start_time;
}

CUresult wait_for_shared(Context* c, const SharedEvent& e, uint64_t record) {
  for (int pauses = 1; !e.is_complete(record) && !c->destroyed && !c->error; ++pauses) {
    if (pauses % kPausesUntilLook == 0 && e.recorder_has_ended()) break;
    nanosleep(&kPause, nullptr);
  }
  return c->error;
}

}  // namespace softgpu

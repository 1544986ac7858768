// Events that processes share: a page with the number of records, and of those that are complete.
//
// Thread safety: any thread of any process. wait_for_shared blocks.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace softgpu {

struct Context;

class SharedEvent {
 public:
  static std::shared_ptr<SharedEvent> create();      // null on failure
  static std::shared_ptr<SharedEvent> open(int fd);  // takes the descriptor
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  int file() const { return fd_; }
  // Return the number of a new record.
  uint64_t record();
  void complete(uint64_t record);
  uint64_t newest() const { return page_->newest; }
  bool is_complete(uint64_t record) const;
  // Return whether the process of the newest record has ended: nothing will complete it.
  bool recorder_has_ended() const;

 private:
  struct Page {
    std::atomic<uint64_t> newest, complete;
    std::atomic<uint64_t> pid, start_time;  // of the process with the newest record
  };
  SharedEvent(int fd, Page* page) : fd_(fd), page_(page) {}
  static std::shared_ptr<SharedEvent> map(int fd);

  int fd_;
  Page* page_;
};

// Block until a record is complete, its process has ended, or the context has an error or is
// destroyed. Return the error.
CUresult wait_for_shared(Context* c, const SharedEvent& e, uint64_t record);

}  // namespace softgpu

// Events that sessions of one allocation share: a page of host memory that their GPUs write.
//
// Each record of the event gets a number. When a stream reaches the record, the GPU writes the
// number to a slot of the page; other streams let the GPU wait for it there. A later record with
// the same slot comes after the earlier one. Beside it the page says which session began a record:
// the GPU work of a session that has ended completes none, so the others do that from the host.
//
// Thread safety: record() and order_after() need a current context; the other members are for any
// thread. Another session may have written anything to the page.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "server/driver.h"

namespace busbar::server {

class SharedEvent {
 public:
  // Null if there is no memory, or the driver does not make it accessible to the GPU.
  static std::shared_ptr<SharedEvent> create(Driver& cu);
  // Takes the descriptor of a page. Null if it is no such page.
  static std::shared_ptr<SharedEvent> open(Driver& cu, int descriptor);
  // No stream may use the page any more.
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  int descriptor() const { return descriptor_; }
  // `session` is the launcher's pid of this session server; 0: unknown.
  uint32_t begin_record(uint32_t session) {
    uint32_t record = ++page_->newest;
    page_->sessions[record % kRemembered] = session;
    return record;
  }
  uint32_t newest() const { return page_->newest; }
  bool is_complete(uint32_t record) const {
    return (int32_t)(page_->done[record % kSlots] - record) >= 0;
  }
  // Completes a record from the host.
  void complete(uint32_t record) { page_->done[record % kSlots] = record; }
  // Completes the records of sessions that have ended. Called once in a while by one thread; a
  // record is looked at from the second call after its begin.
  void complete_abandoned(const std::function<bool(uint32_t session)>& has_ended);
  // Lets the GPU complete a record when the stream gets there.
  CUresult record(CUstream stream, uint32_t record) const;
  // Lets the stream wait for a record.
  CUresult order_after(CUstream stream, uint32_t record) const;

 private:
  // Powers of two: numbers may start again from 0.
  static constexpr uint32_t kSlots = 512;
  static constexpr uint32_t kRemembered = 1024;  // newest records whose session is known
  struct Page {
    std::atomic<uint32_t> newest;  // 0: never recorded
    uint32_t unused[15];
    std::atomic<uint32_t> done[kSlots];
    std::atomic<uint32_t> sessions[kRemembered];
  };
  SharedEvent(Driver& cu, int descriptor, Page* page)
      : cu_(cu), descriptor_(descriptor), page_(page) {}
  static std::shared_ptr<SharedEvent> map(Driver& cu, int descriptor);
  CUdeviceptr slot(uint32_t record) const;

  Driver& cu_;
  int descriptor_;
  Page* page_;
  CUdeviceptr on_gpu_ = 0;  // 0: not registered
  uint32_t seen_ = 0;       // newest record at the last call of complete_abandoned()
};

}  // namespace busbar::server

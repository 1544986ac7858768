// Records that wait. The ring fixes the order in which calls take effect; a stream whose head waits
// is parked with whatever depends on it, and the rest goes on.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "server/session.h"

namespace busbar::server {

// What must have happened before a parked record may run.
struct Gate {
  uint32_t queue = 0;  // that queue has let go of `place`
  uint64_t place = 0;
  uint64_t transfer = 0, bytes = 0;  // or: these bulk bytes have come
};

class StreamQueues {
 public:
  using Run = std::function<void(const Record&)>;
  StreamQueues(Staging& staging, Run run) : staging_(staging), run_(std::move(run)) {}

  static constexpr uint32_t kGlobal =
      0;  // records of no stream that must follow all that is parked

  bool idle() const { return parked_ == 0; }
  bool empty(uint32_t queue) const;
  bool held(uint32_t queue) const;
  bool busy(uint32_t queue) const;      // something waits there, or a host function holds it
  uint64_t tail(uint32_t queue) const;  // place of the newest record that was ever parked
  bool passed(const Gate& g) const;

  // Copies the record behind what already waits. Returns its place, or 0 when too much is parked.
  uint64_t park(uint32_t queue, const Record& record, std::vector<Gate> gates);
  std::vector<Gate> all_tails() const;

  void hold(uint32_t queue);  // a host function runs: nothing behind it goes on
  void resume(uint32_t queue);
  void forget(uint32_t queue);  // its stream is gone
  void progress();              // runs every record whose gates are open

 private:
  struct Waiting {
    std::vector<uint8_t> bytes;
    Record record;
    std::vector<Gate> gates;
  };
  struct Queue {
    std::deque<Waiting> waiting;
    uint64_t pushed = 0, popped = 0;
    bool held = false;
  };
  bool step(uint32_t id, Queue& q);
  Staging& staging_;
  Run run_;
  std::map<uint32_t, Queue> queues_;
  size_t parked_ = 0;
  bool running_ = false;
};

}  // namespace busbar::server

// The shared events of a session: those that it offers to other sessions of its allocation, those
// that it has opened, and those that end when the streams have passed their last use.
//
// Thread safety: offer() to descriptor_of() are for any thread, with a mutex. The other members
// are for the executor thread.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/account.h"
#include "server/shared_event.h"
#include "server/stream_use.h"

namespace busbar::server {

using IpcSecret = std::array<uint8_t, 16>;
// Of a stream: what was submitted to it.
using StreamMark = std::pair<std::shared_ptr<StreamUse>, uint64_t>;

class SharedEvents {
 public:
  // Of a session, with those that have not ended yet: each has two pages of pinned memory.
  static constexpr uint32_t kMax = 1024;

  // Gets the secret by which other sessions open an event. False if there is none.
  bool offer(const std::shared_ptr<SharedEvent>& event, IpcSecret& secret);
  // Keeps an event until the client creates its own with the same id. False if there are too many.
  bool keep(uint32_t id, std::shared_ptr<SharedEvent> event);
  // Returns the event that was kept for this id; null if there is none, or the session has too
  // many.
  std::shared_ptr<SharedEvent> take(uint32_t id);
  // Returns a new descriptor of an offered event; -1 if there is none.
  int descriptor_of(const IpcSecret& secret);

  bool any();  // whether the session has some
  // Begins a record of an event by this session.
  uint32_t begin_record(SharedEvent& event, const Account& account);
  // Completes what sessions of the allocation began and cannot complete, because they have ended.
  // Does something once a second, if there are events.
  void complete_abandoned(const Account& account) {
    if (!created_.empty()) look_for_ends(account);
  }
  // Remembers a stream that ended: events that are retired later wait for its mark, too.
  void leave(StreamMark mark);
  // Lets an event end when all streams have passed the marks.
  void retire(std::shared_ptr<SharedEvent> event, std::vector<StreamMark> marks);
  // Returns the retired events of which all streams have passed the marks. Their destructors may
  // wait for the GPU.
  std::vector<std::shared_ptr<SharedEvent>> take_ended();

 private:
  struct Retired {
    std::shared_ptr<SharedEvent> event;
    std::vector<StreamMark> marks;
  };
  void look_for_ends(const Account& account);

  std::mutex mutex_;
  std::map<IpcSecret, std::weak_ptr<SharedEvent>> offered_;
  std::unordered_map<uint32_t, std::shared_ptr<SharedEvent>> kept_;  // by the client's id
  std::vector<std::weak_ptr<SharedEvent>> created_;
  std::vector<StreamMark> left_;
  std::deque<Retired> retired_;
  uint32_t own_session_ = 0;  // as the launcher names it; 0: not known yet
  int64_t next_look_ms_ = 0;
  std::unordered_map<uint32_t, uint32_t> absent_;  // by session: looks that did not find it
};

}  // namespace busbar::server

// Graphs and executable graphs that a call on the helper thread `code` uses. Drivers do not
// synchronise them, and a client need not wait for the reply: until that is sent, they and what
// they own are unknown to the executor.
//
// Thread safety: made by the executor; then the helper thread only.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "server/memory.h"
#include "server/record.h"
#include "wire/objects.h"

namespace busbar::server {

class PinnedGraphs {
 public:
  // Pins what the first arguments of a record name.
  PinnedGraphs(Objects<Charge>& objects, const Record& r);
  ~PinnedGraphs() { release(); }
  PinnedGraphs(const PinnedGraphs&) = delete;
  // True if a capture appends nodes to one of the graphs, so that no other thread may use it.
  bool captured() const { return captured_; }

  // Runs `call` on this thread, to which the graphs are known. They are released before a reply.
  template <typename F>
  void run(F call) {
    t_current = this;
    t_uses_pinned_objects = true;
    call();
    t_uses_pinned_objects = false;
    t_current = nullptr;
  }
  static void release_for_reply() {
    if (t_current) t_current->release();
  }

 private:
  void pin(ObjectKind kind, uint64_t value);
  void release();
  static inline thread_local PinnedGraphs* t_current = nullptr;
  Objects<Charge>& objects_;
  std::vector<uint64_t> values_;
  bool captured_ = false;
};

}  // namespace busbar::server

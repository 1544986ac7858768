// Events that nodes of executable graphs record and wait for. A parked launch counts as a record of
// the former, and waits for parked records of the latter.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "server/driver.h"

namespace busbar::server {

class GraphEvents {
 public:
  // By the client's ids.
  struct Named {
    std::set<uint32_t> recorded, awaited;
    std::set<uint32_t> maybe_recorded;  // after a change of the nodes
    bool empty() const { return recorded.empty() && awaited.empty(); }
  };
  // A node of a graph may name the event from now on.
  void add(CUevent handle, uint32_t id);
  // Notes what a new executable graph names: nodes of `graph` and of its child graphs.
  void note(Driver& cu, CUgraphExec exec, CUgraph graph);
  // The nodes with events of an executable graph change: any of them may name any event.
  void change(CUgraphExec exec);
  Named named(CUgraphExec exec) const;

 private:
  void find(Driver& cu, CUgraph graph, Named& named) const;
  void add_id(CUevent handle, std::set<uint32_t>& ids) const;
  std::atomic<bool> used_{false};  // there is an entry
  mutable std::mutex mutex_;       // guards the next ones
  std::unordered_map<CUevent, uint32_t> ids_;
  std::map<CUgraphExec, Named> named_;  // of graphs that name events
};

}  // namespace busbar::server

// The arbiters of all GPUs of this node, and their connections to session servers: gives each
// session the state of its turns on a page, and reads its notices. ADR 83.
//
// Sessions of one allocation have one account on each GPU. A session sees its turn only after it
// has asked for one, so only those sessions must drain at its end. A session that breaks the
// protocol loses its connection; nothing that it sends changes more than its own place.
//
// Thread safety: run() belongs to one thread; the other members are for any thread. mutex_ guards
// everything. Nothing blocks but run().
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/turn_messages.h"
#include "launcher/arbiter.h"
#include "launcher/gpu_set.h"
#include "launcher/ledgers.h"
#include "launcher/sealed_memory.h"

namespace busbar::launcher {

class Arbiters {
 public:
  Arbiters();
  [[noreturn]] void run();

  // Sets the shares of an allocation, for its sessions of now and later.
  void set_allocation(const std::string& id, const control::Allocation& allocation);
  // Forgets the shares of other allocations. Their sessions keep theirs until they end.
  void keep(const std::function<bool(const std::string&)>& is_granted);

  // Replaces the connection of a session. Returns the end for its server, or -1: the allocation is
  // not granted. The session takes part until that end is closed.
  int connect(const Account& account);
  bool is_connected(const SessionId& session);
  control::Enforcement enforcement(const SessionId& session);

 private:
  enum class Stage {
    idle,      // no work
    wants,     // work waits for a turn
    holds,     // has a turn
    draining,  // the turn has ended, and work may still run
  };
  // A session on one GPU.
  struct Place {
    GpuUuid gpu{};
    Stage stage = Stage::idle;
    uint32_t turn = 0;           // that it held last
    bool is_overdue = false;     // that turn did not drain in time
    Microseconds sliced_at = 0;  // when that happened last; 0: never
  };
  struct Member {
    Account account;
    std::unique_ptr<SealedMemory> page;
    uint32_t partitions = 0;
    std::array<Place, wire::kMaxDevices> places;
    bool changed = false;  // the page, since the session was told
    control::TurnPage& values() { return *(control::TurnPage*)page->data(); }
  };
  struct Gpu {
    Arbiter arbiter;
    std::vector<std::pair<Member*, uint32_t>> places;  // with the partition
  };
  bool watch(int fd);
  void join(Member& member, const control::Allocation& allocation, Microseconds now);
  void forget(int fd);
  void leave(Member& member, uint32_t partition, Microseconds now);
  void serve(int fd);
  bool take_notices(int fd, Member& member);
  bool apply(Member& member, const control::TurnNotice& notice);
  void apply_drained(Gpu& gpu, Member& member, Place& place, bool wants, Microseconds now);
  bool is_busy(const Gpu& gpu, const std::string& allocation) const;
  bool has_waiting(const Gpu& gpu, const std::string& allocation) const;
  void settle(Gpu& gpu, Microseconds now);
  void mark_overdue(Gpu& gpu, const std::string& allocation, Microseconds now);
  void show(const Gpu& gpu, Member& member, uint32_t partition);
  void show_word(Member& member, uint32_t partition, uint32_t turn, control::TurnState state);
  void advance_all();
  void tell_sessions();
  void arm(Microseconds now);

  const int epoll_, timer_;
  std::mutex mutex_;
  std::map<std::string, control::Allocation> allocations_;
  std::map<int, std::unique_ptr<Member>> members_;  // by descriptor
  std::map<SessionId, int> sockets_;
  std::map<GpuUuid, Gpu> gpus_;
};

}  // namespace busbar::launcher

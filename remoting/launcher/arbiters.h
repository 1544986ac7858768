// The arbiters of all GPUs of this node, and their connections to session servers: gives each
// session the state of its turns on a page, and reads its notices. ADR 83.
//
// Sessions of one allocation have one account on each GPU. A session sees its turn only after it
// has asked for one, so only those sessions must drain at its end. An allocation gets its turns on
// all of its GPUs together, without those that it has not used for some turns. A session that
// breaks the protocol loses its connection; nothing that it sends changes more than its own place.
//
// Thread safety: run() belongs to one thread; the other members are for any thread. Nothing blocks
// but run().
#pragma once
#include <unistd.h>

#include <array>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/turn_messages.h"
#include "launcher/arbiter.h"
#include "launcher/fair_mutex.h"
#include "launcher/gpu_set.h"
#include "launcher/joint_turns.h"
#include "launcher/ledgers.h"
#include "launcher/received_shares.h"
#include "launcher/sealed_memory.h"
#include "transport/clock.h"

namespace busbar::launcher {

class Arbiters {
 public:
  using Clock = Microseconds (*)();  // monotonic; any thread
  explicit Arbiters(Clock clock = monotonic_now, Arbiter::Carry carry = Arbiter::Carry::yes);
  ~Arbiters() {
    for (int fd : {epoll_, timer_}) ::close(fd);
  }
  Arbiters(const Arbiters&) = delete;
  [[noreturn]] void run();
  // What run() repeats: reads notices, and ends and begins turns. Waits up to `timeout_ms` for
  // notices or for next_deadline(); -1: without a limit; 0: for the caller to look at that.
  void step(int timeout_ms);
  Microseconds next_deadline();  // Arbiter::kNever: none
  static Microseconds monotonic_now() { return transport::now_ns() / 1000; }

  // Sets the shares of an allocation, for its sessions of now and later.
  void set_allocation(const std::string& id, const control::Allocation& allocation);
  // Forgets the shares of other allocations. Their sessions keep theirs until they end.
  void keep(const std::function<bool(const std::string&)>& is_granted);

  // Replaces the connection of a session. Returns the end for its server, or -1: the allocation is
  // not granted. The session takes part until that end is closed.
  int connect(const Account& account);
  bool is_connected(const SessionId& session);
  // How the shares of a session are enforced, the longest time of the last minute that its work
  // needed to end after a turn, or has needed if it has not ended yet, and its share of its first
  // GPU.
  struct Limit {
    control::Enforcement enforcement = control::Enforcement::unenforced;
    uint32_t longest_drain_ms = 0;
    Arbiter::Share share{control::ComputeMode::shared, 0};
    void put(control::SessionRecord& record) const;
  };
  Limit limit(const SessionId& session);
  // The sessions whose work has been late for longer than their allocation permits while others had
  // or wanted a turn, with that limit in seconds. Defined in arbiter_late.cc.
  std::map<SessionId, uint32_t> too_late();
  // Counts the places of sessions that step() has looked at. For tests.
  uint64_t places_seen();
  // What each allocation received of the GPUs that were given in turns. Defined in
  // arbiter_shares.cc.
  std::vector<control::ShareRecord> shares();

 private:
  static constexpr Microseconds kShown = 60'000'000;  // how long what was noticed is shown
  struct Gpu;
  enum class Stage {
    idle,      // no work
    wants,     // work waits for a turn
    holds,     // has a turn
    draining,  // the turn has ended, and work may still run
  };
  // The longest time that work needed to end after a turn, of a minute.
  struct Drain {
    Microseconds length = 0, at = 0;
    Microseconds of(Microseconds now) const;
    void note(Microseconds drain, Microseconds now);
  };
  // A session on one GPU.
  struct Place {
    Gpu* gpu = nullptr;
    Stage stage = Stage::idle;
    uint32_t unused_turns = 0;   // joint turns since it has asked for one
    uint32_t turn = 0;           // that it held last
    bool is_overdue = false;     // that turn did not drain in time
    bool is_single = false;      // one record more may be submitted in it
    Microseconds sliced_at = 0;  // when that happened last; 0: never
    // Arbiter::late() when its work became late; kNever: it is not late. While the GPU is open it
    // stays as it was: whether the work has ended shows when turns are needed again.
    Microseconds late_from = Arbiter::kNever;
    uint32_t late_turn = 0;         // the first turn whose work is late
    Microseconds drains_since = 0;  // the end of the turn whose work may still run; 0: none does
    Drain longest_drain;
  };
  struct Member;
  // An allocation that is granted, or has had sessions since the newest grants.
  struct Allocation {
    Arbiter::Id id;
    control::Allocation grant{};  // the newest one
    bool is_granted = false;
    bool has_run = false;   // has had a session
    bool is_joint = false;  // a session of it has several GPUs
    std::vector<Member*> sessions;
    // The GPUs whose arbiters know its account as joint. join() tells those of a new account.
    std::vector<Gpu*> joint;
    // The account that holds the debts of its tenant from allocations that have ended.
    Arbiter::Id debts() const {
      return {Arbiter::Id::kDebts, std::bit_cast<std::array<uint64_t, 2>>(grant.tenant)};
    }
  };
  struct Member {
    Member() = default;
    ~Member() {
      if (socket >= 0) ::close(socket);
    }
    Member(const Member&) = delete;
    SessionId session{};
    Allocation* allocation = nullptr;
    int socket = -1;
    std::unique_ptr<SealedMemory> page;
    uint32_t partitions = 0;
    std::array<Place, wire::kMaxDevices> places;
    bool changed = false;  // the page, since the session was told
    control::TurnPage& values() { return *(control::TurnPage*)page->data(); }
  };
  using Places = std::vector<std::pair<Member*, uint32_t>>;  // with the partition
  using Joint = std::map<Arbiter::Id, Allocation*>;
  struct Gpu {
    explicit Gpu(Arbiter::Carry carry) : arbiter(carry) {}
    Arbiter arbiter;
    std::map<Arbiter::Id, Places> places;     // by allocation
    Joint joint;                              // the allocations here that are joint
    bool changed = true;                      // the arbiter or a place, since it was advanced
    Microseconds deadline = Arbiter::kNever;  // of the arbiter, when it was advanced
    bool was_open = false;                    // when the places were shown
    Arbiter::Id shown_holder;
    ReceivedShares received;
  };
  bool watch(int fd);
  void find_places(Member& member) REQUIRES(mutex_);
  void join(Member& member, Microseconds now) REQUIRES(mutex_);
  void take_over_debts(Member& member, Microseconds now) REQUIRES(mutex_);
  void forget_settled(Microseconds now) REQUIRES(mutex_);
  void forget(int fd) REQUIRES(mutex_);
  void leave(Member& member, uint32_t partition, Microseconds now) REQUIRES(mutex_);
  void serve(int fd) REQUIRES(mutex_);
  bool take_notices(int fd, Member& member) REQUIRES(mutex_);
  bool apply(Member& member, const control::TurnNotice& notice) REQUIRES(mutex_);
  void apply_want(Member& member, Place& place, Microseconds now) REQUIRES(mutex_);
  void apply_drained(Member& member, Place& place, bool wants, Microseconds now) REQUIRES(mutex_);
  std::span<const Places::value_type> places_on(const Gpu& gpu, const Arbiter::Id& id)
      REQUIRES(mutex_);
  std::vector<Gpu*> joint_gpus(const Allocation& allocation) REQUIRES(mutex_);
  static joint_turns::Group joint_group(const Arbiter::Id& id, const std::vector<Gpu*>& gpus);
  void update_joint(Allocation& allocation) REQUIRES(mutex_);
  void update_joint(const Gpu& gpu) REQUIRES(mutex_);
  void want(Gpu& gpu, const Allocation& allocation, Microseconds now) REQUIRES(mutex_);
  bool is_busy(const Gpu& gpu, const Arbiter::Id& id) REQUIRES(mutex_);
  bool keeps_turn(const Gpu& gpu, const Allocation& allocation) REQUIRES(mutex_);
  bool has_waiting(const Gpu& gpu, const Allocation& allocation) REQUIRES(mutex_);
  bool may_run(const Gpu& gpu, const Allocation& holder) REQUIRES(mutex_);
  void settle(Gpu& gpu, Microseconds now) REQUIRES(mutex_);
  bool show_places(Gpu& gpu, Microseconds now) REQUIRES(mutex_);
  void want_again(Gpu& gpu, Microseconds now) REQUIRES(mutex_);
  void show(Gpu& gpu, Member& member, uint32_t partition, bool has_turn, Microseconds now)
      REQUIRES(mutex_);
  void show_word(Member& member, uint32_t partition, uint32_t turn, control::TurnState state)
      REQUIRES(mutex_);
  // Of arbiter_late.cc:
  static bool is_late(const Place& place) {
    return place.late_from != Arbiter::kNever && place.stage != Stage::idle;
  }
  void mark_overdue(Gpu& gpu, const Arbiter::Id& id, Microseconds now) REQUIRES(mutex_);
  void update_late(Gpu& gpu, const Arbiter::Id& id, Microseconds now) REQUIRES(mutex_);
  void apply_drained_before(Member& member, Place& place, Microseconds now) REQUIRES(mutex_);
  static void mark_changed(const Allocation& allocation);
  std::vector<Gpu*> take_changed() REQUIRES(mutex_);
  void mark_due(Microseconds now) REQUIRES(mutex_);
  void advance_joint(const std::vector<Gpu*>& gpus, Microseconds now) REQUIRES(mutex_);
  static void count_joint_turn(const Allocation& allocation);
  void help_drain(const joint_turns::Group& group, const Allocation& allocation, Microseconds now)
      REQUIRES(mutex_);
  void admit_single(const Allocation& allocation) REQUIRES(mutex_);
  void advance_all(Microseconds now) REQUIRES(mutex_);
  void tell_sessions() REQUIRES(mutex_);
  bool has_turns() const REQUIRES(mutex_);
  void beat(Microseconds now) REQUIRES(mutex_);
  void arm(Microseconds now) REQUIRES(mutex_);
  Microseconds first_deadline(Microseconds now) const REQUIRES(mutex_);

  const Clock clock_;
  const Arbiter::Carry carry_;
  const int epoll_, timer_;
  FairMutex mutex_;
  std::map<std::string, Allocation> allocations_ GUARDED_BY(mutex_);
  uint64_t newest_allocation_ GUARDED_BY(mutex_) = 0;                  // its number
  std::map<int, std::unique_ptr<Member>> members_ GUARDED_BY(mutex_);  // by descriptor
  std::vector<Member*> untold_ GUARDED_BY(mutex_);                     // of a change of the page
  std::map<SessionId, int> sockets_ GUARDED_BY(mutex_);
  std::map<GpuUuid, Gpu> gpus_ GUARDED_BY(mutex_);
  // When an ending joint turn is stalled.
  std::map<const Allocation*, Microseconds> stalls_ GUARDED_BY(mutex_);
  uint32_t beats_ GUARDED_BY(mutex_) = 1;
  Microseconds next_beat_ GUARDED_BY(mutex_) = 0;
  uint64_t places_seen_ GUARDED_BY(mutex_) = 0;
  Microseconds armed_ GUARDED_BY(mutex_) = 0;  // what the timer is set to
};

}  // namespace busbar::launcher

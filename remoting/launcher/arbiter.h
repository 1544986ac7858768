// Decides which allocation may use one GPU now. It is a deficit round robin over the allocations
// that have sessions there. Time is an argument. The caller calls advance() at next_deadline().
//
// Each account gets credit for every round, in proportion to its percent, and pays the time from
// the grant of a turn until its work has drained. The account with the largest part of its credit
// left has the next turn, so that the turns of each are spread over the round. What a turn overruns
// stays as debt; credit of an account without work does not accumulate. Capped and guaranteed
// accounts also get credit by the clock: a capped account runs on nothing else, a guaranteed one is
// served first while it has some.
//
// A turn that does not drain in time is late: others get turns beside it, and its account pays for
// the time until its work has drained all the same. Its work may wait for work that has no turn, so
// the account gets a turn from time to time whatever it owes; that turn does not drain either.
//
// An account in a pause (see Pauses) keeps its credit and gets the next turn when it is back, if
// more than Pauses::kReturn is left. Until it is back, another account may use the GPU without
// paying; after that it pays until its work has drained. One that owes more than a turn may not:
// the GPU waits for the end of a short pause. One that owes more than a round and a turn may use no
// pause, and the GPU may be idle: what it drains after pauses can be more than it ever pays. The
// account in the pause pays while accounts wait, so pauses cost as much as work, until its credit
// has ended.
//
// A joint account gets its turns here and on other GPUs together, so it is not chosen here: the
// caller says when, see JointTurns.
//
// An account that leaves keeps its debt until it is paid, so that a tenant with a new session for
// each kernel pays for the kernels of the earlier ones. A debt is GPU time: it stays the same when
// the percent or the mode of an account changes. See arbiter_debts.cc.
//
// Thread safety: none.
#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "control/messages.h"
#include "control/turn_messages.h"
#include "launcher/pauses.h"

namespace busbar::launcher {

using Microseconds = int64_t;

class Arbiter {
 public:
  // Of an account: of the allocation with this number, or of the debts of a tenant.
  struct Id {
    static constexpr uint64_t kDebts = UINT64_MAX;
    uint64_t allocation = 0;  // 0: no account
    std::array<uint64_t, 2> tenant{};
    auto operator<=>(const Id&) const = default;
    explicit operator bool() const { return allocation != 0; }
  };
  struct Share {
    control::ComputeMode mode = control::ComputeMode::shared;
    uint32_t percent = 100;
  };
  static constexpr Microseconds kTurn = 10'000;      // the longest turn while others want one
  static constexpr Microseconds kRound = 100'000;    // the credit of a round, for 100 percent
  static constexpr Microseconds kLeastTurn = 1'500;  // on average, of those that take part
  static constexpr Microseconds kDrain = 500'000;    // a turn that lasts longer is shared
  static constexpr Microseconds kLateTurns =
      1'000'000;  // from one turn of a late account to the next
  static constexpr Microseconds kNever = INT64_MAX;
  static_assert(kLeastTurn <= 2 * kRound / 100, "two rounds at once are enough for 1 percent");
  // Says whether debts and credits survive a turn. Tests plant `no`.
  enum class Carry { yes, no };

  explicit Arbiter(Carry carry = Carry::yes) : carry_(carry) {}

  // Adds an account, or changes its share from the next turn on. An account that comes back has
  // what is left of its debt.
  void set_share(const Id& id, const Share& share, Microseconds now);
  const Share& share(const Id& id) const { return accounts_.at(id).share; }
  void remove(const Id& id, Microseconds now);
  // Adds what is left of the debt of an account that is not present to another account, where that
  // one pays: by rounds, by the clock, or both.
  void move_debt(const Id& from, const Id& to, Microseconds now);
  // True if no account is present and no debt is left.
  bool is_settled(Microseconds now) const;

  // The account has work that waits for a turn.
  void want(const Id& id, Microseconds now);
  // All work of the holder has ended. `wants`: more waits for the next turn.
  void drained(const Id& id, bool wants, Microseconds now);
  // The work of late turns has ended; see take_overdue(). What runs in a turn now is not late.
  void late_drained(const Id& id, Microseconds now);
  // Ends turns and begins the next one, as far as it is time for that.
  void advance(Microseconds now);
  Microseconds next_deadline(Microseconds now) const;

  // ---- joint accounts ----
  bool set_joint(const Id& id, bool joint);  // true after a change
  // The account has work and credit.
  bool is_due(const Id& id) const;
  // Another account has work, and has had no turn since the last one of `id`.
  bool is_turn_of_others(const Id& id) const;
  // The next turn is for the account. It costs from its grant on, and ends after begin() only.
  void call(const Id& id, Microseconds now);
  bool is_called() const { return bool(called_); }
  void begin(Microseconds now);
  bool has_begun() const { return holder_ && ends_at_ != kNever; }
  // The holder must drain before its time.
  void revoke(Microseconds now);
  // Gives the turn a new number, so that a session sees a change.
  uint32_t renumber() { return turn_ = (turn_ + 1) % control::kTurnNumbers; }

  // True while one account has the GPU for itself and no cap: it needs no turns.
  bool is_open() const { return is_open_; }
  Id holder() const { return holder_; }                      // whose work may run
  bool is_revoked() const { return revoked_at_ != kNever; }  // the holder must drain
  uint32_t turn() const { return turn_; }                    // counts the grants
  // The holder that did not drain in time, since the last call.
  Id take_overdue();
  Microseconds charged(const Id& id) const;
  // Returns the time in which work of the account was late while other accounts had or wanted a
  // turn. Of several late accounts the first one counts: it may be the cause of the others.
  Microseconds late(const Id& id) const;

 private:
  struct Account {
    Share share;
    bool present = true;  // it has sessions
    bool wants = false;
    bool joint = false;
    Microseconds balance = 0;          // of the rounds
    Microseconds late_turn_at = 0;     // its newest turn while it was late, or when it became late
    Microseconds late_since = kNever;  // kNever: none of its work is late
    Microseconds late_until = kNever;  // until when that is paid; kNever: it pays as the holder
    Microseconds reserve = 0;          // by the clock, of capped and guaranteed accounts
    Microseconds reserved_at = 0;
    Microseconds fraction = 0;  // of the reserve, in hundredths
    Microseconds charged = 0;
    Microseconds late = 0;  // see late()
    Pauses pauses;
    Microseconds left_at = 0, left_with = 0;  // time of the departure, balance at that time
  };
  using Accounts = std::map<Id, Account>;
  static bool is_capped(const Account& a);
  static bool has_reserve(const Account& a);
  static Microseconds quantum(const Account& a) { return kRound * a.share.percent / 100; }
  Microseconds most_balance(const Account& a) const { return rounds_at_once_ * quantum(a); }
  static Microseconds threshold(const Account& a) { return std::min(kTurn, quantum(a)); }
  bool may_use_reserve(const Account& a) const;
  bool may_use_credit(const Account& a) const { return may_use_reserve(a) || may_use_balance(a); }
  bool may_use_pause(const Account& a) const { return !is_capped(a) && a.balance > -threshold(a); }
  // A guaranteed account owes up to a round for what it has used first; see charge().
  bool may_use_long_pause(const Account& a) const {
    return !is_capped(a) && a.balance > -kRound - kTurn;
  }
  Microseconds turn_length(const Account& a) const;
  bool needs(const Accounts::value_type& entry) const;
  bool others_need(const Id& id) const;
  bool takes_part(const Accounts::value_type& entry) const;
  bool is_chosen_here(const Accounts::value_type& entry) const;
  Microseconds rounds_to_next_turn(bool chosen_here) const;
  static bool is_late(const Account& a) { return a.late_since != kNever; }
  bool is_holder_late() const { return holder_ && is_late(accounts_.at(holder_)); }
  static bool is_late_for_long(const Account& a, Microseconds now) {
    return a.wants && a.late_until != kNever && now >= a.late_turn_at + kLateTurns;
  }
  void look_for_reserves();
  void look_for_open();
  void accrue(Microseconds now);
  void charge(Microseconds now);
  void charge_late(Microseconds now);
  void note_late(Microseconds now);
  static void charge(Account& a, Microseconds used);
  static Microseconds reserve_at(const Account& a, Microseconds now);
  static Microseconds debt(const Account& a, Microseconds now);
  static void change_share(Account& a, const Share& share, Microseconds now);
  static bool is_settled(const Account& a, Microseconds now);
  void forget_settled(Microseconds now);
  void list_accounts();
  Accounts::const_iterator only_present() const;
  void end_turn(Microseconds now);
  void begin_open(Microseconds now);
  void grant(Accounts::value_type& next, Microseconds now);
  Accounts::iterator after_last(bool (Arbiter::*eligible)(const Account&) const);
  Accounts::iterator most_credit();
  // In proportion to the percent.
  static bool has_more_credit(const Account& a, const Account& b) {
    // NOLINTNEXTLINE(custom-unchecked-product): at most two rounds and a percent
    return a.balance * b.share.percent > b.balance * a.share.percent;
  }
  bool may_use_balance(const Account& a) const;
  Microseconds rounds_of_least_turns() const;
  bool begin_round();
  Accounts::iterator pick(Microseconds now);
  void set_end(const Account& a, Microseconds now);
  Accounts::iterator late_for_long(Microseconds now);
  void end_late(Microseconds now);
  void end_expired(Microseconds now);

  // ---- pauses ----
  static bool is_in_paid_pause(const Account& a);
  Microseconds credit_in_pauses() const;
  bool has_paid_pause() const { return credit_in_pauses() > 0; }
  bool has_joint() const;
  bool has_waiting() const;
  Microseconds end_of_short_pauses() const;
  void begin_pause(Account& a, Microseconds now);
  void begin_to_pay(Microseconds now);
  void pay_for_pauses(Microseconds now);
  Accounts::iterator pick_in_pause(Microseconds now);

  const Carry carry_;
  Accounts accounts_;
  // In their order. A walk through the nodes of the map waits for the memory of each one.
  std::vector<Accounts::iterator> in_order_;
  Id holder_, last_, overdue_;  // last: whose turn was granted last
  Id called_;                   // a joint account whose turn is next
  bool is_open_ = false;        // see is_open()
  bool has_reserves_ = false;   // some account has credit by the clock
  bool has_late_ = false;       // some account may be late
  bool has_pauses_ = false;     // some account may be expected back
  bool is_free_ = false;        // the holder uses the pause of another account
  uint32_t turn_ = 0;
  Microseconds rounds_at_once_ = 1;  // of which the accounts got the credit together
  Microseconds noted_at_ = 0;        // by note_late()
  Microseconds charged_until_ = 0, ends_at_ = kNever, revoked_at_ = kNever;
  Microseconds pays_since_ = kNever;  // those in a pause
};

}  // namespace busbar::launcher

// The account of the device memory that one allocation uses on this node: limits, and the charges
// of each session. Its file has one record for each session and is written before a request is
// answered, so the next launcher continues from it.
//
// The file is private to the launcher. Sessions see a page of values and send requests
// (control/ledger_messages.h); nothing that a session writes is part of the account.
//
// Thread safety: none; Ledgers locks.
#pragma once
#include <sys/types.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/ledger_messages.h"
#include "control/messages.h"
#include "launcher/sealed_memory.h"

namespace busbar::launcher {

using SessionId = std::array<uint8_t, 16>;

class Ledger {
 public:
  // Opens the file with the records of an earlier launcher, or creates it. Null on failure.
  static std::unique_ptr<Ledger> open(const std::string& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;

  // `context_bytes` is what the context of a session takes of each partition; null: nothing.
  void set_limits(const uint64_t* bytes, uint32_t partitions,
                  const uint64_t* context_bytes = nullptr);
  // Adds a session, or recognises one of an earlier launcher. `pidfd` is of its server. False when
  // there is no room.
  bool add(const SessionId& id, uint32_t server_pid, uint32_t client_pid, int pidfd);
  // Releases the charges of a session. The names of its unsupported calls stay until remove().
  void end(const SessionId& id);
  void remove(const SessionId& id);
  // Removes the sessions for which `is_known` is false.
  void remove_others(const std::function<bool(const SessionId&)>& is_known);

  // Applies a request, or returns the answer again. An answer without a sequence number: the
  // request waits for free memory and has to be applied again. False when the request breaks the
  // protocol, or cannot be written: then nothing has changed.
  bool apply(const SessionId& id, const control::LedgerRequest& request,
             control::LedgerAnswer& answer);

  uint64_t charged(uint32_t partition) const;  // by all sessions, without their contexts
  uint64_t held(uint32_t partition) const;     // charged by all sessions, and their contexts
  std::array<uint64_t, wire::kMaxDevices> charged_by(const SessionId& id) const;
  std::string refused_calls(const SessionId& id) const;  // separated by spaces
  bool empty() const;                                    // no session

  // ---- suspension (ADR 84), defined in ledger_suspension.cc ----
  // Charges what the session has on GPUs to the host memory for suspended sessions, of which
  // `host_room` is free. Returns the reason if it cannot be suspended.
  std::string begin_suspension(const SessionId& id, uint64_t host_room, int64_t deadline_ms);
  // Ends a suspension that the session has not confirmed.
  void abandon_suspension(const SessionId& id, const std::string& reason);
  // The same for all that have not been confirmed in time, times of transport::now_ms(). Returns
  // their sessions.
  std::vector<SessionId> abandon_late_suspensions(int64_t now_ms);
  uint64_t host_bytes() const;  // of all sessions
  control::SuspensionRecord suspension_of(const SessionId& id) const;
  // Sends the page, and the place of a session there, over a socket. Does not block.
  bool send_page(const SessionId& id, int socket) const;
  int page_descriptor() const { return page_->descriptor(); }

  // ---- unused memory of sessions (ADR 5), defined in ledger_reclaim.cc ----
  // Sessions that are to be told that another one waits for memory, each once. They are waited for
  // until they have answered, or for `until_ms`, a time of transport::now_ms().
  std::vector<SessionId> take_asked(int64_t until_ms);
  void note_returned(const SessionId& id);  // it has answered, or will not
  // Gives up those that have not answered in time. False if none is waited for any more.
  bool expire_asked(int64_t now_ms);

 private:
  // A session, with the same layout on disk.
  struct Record {
    uint32_t state;    // kFree, or the marks of ledger.cc
    uint32_t granted;  // the answer to the newest request
    SessionId session;
    uint64_t sequence;  // of the newest request
    uint64_t charged_bytes[wire::kMaxDevices];
    char refused_calls[control::kRefusedCallBytes];
    uint32_t contexts;    // a bit for each partition on which the session has one
    uint32_t suspension;  // control::Suspension
    uint64_t host_bytes;  // charged for it
    char reason[64];      // why the newest suspension was abandoned
    uint8_t unused[16];
  };
  static_assert(sizeof(Record) == 512);  // a write inside a page is whole, even if killed
  struct Slot {
    Record record{};
    int pidfd = -1;                // -1: its server has not been seen by this launcher
    int64_t suspend_until_ms = 0;  // deadline of an unconfirmed suspension; 0: of another launcher
    bool waits = false;            // its newest request waits for memory
    uint64_t asked_for = 0;        // the request for which the other sessions have been asked
    enum class Asked { no, untold, told } asked = Asked::no;  // for unused memory
    int64_t asked_until_ms = 0;
  };

  Ledger(int fd, std::unique_ptr<SealedMemory> page) : fd_(fd), page_(std::move(page)) {}
  void read_records();
  bool write(const Slot& slot);
  Slot* find(const SessionId& id);
  const Slot* find(const SessionId& id) const;
  Slot* unused_slot();
  bool change(Record& record, const control::LedgerRequest& request);
  bool must_wait(Slot& slot, const control::LedgerRequest& request);
  bool awaits_others(Slot& slot, const control::LedgerRequest& request);
  bool note_waiting(Slot& slot);
  static void note_growth(Record& record);
  static void change_suspension(Record& record, const control::LedgerRequest& request);
  static void end_suspension(Record& record, const std::string& reason);
  bool fits(uint32_t partition, uint64_t bytes);
  bool has_room(const Slot& s, const control::LedgerRequest& request);
  bool may_ever_fit(const Slot& s, const control::LedgerRequest& request) const;
  bool has_context_room(const Record& record, uint32_t partition);
  uint32_t contexts(uint32_t partition) const;
  uint64_t room(uint32_t partition, uint32_t contexts) const;
  void end_dead_sessions();
  void end_slot(Slot& slot);
  void show(const Slot& slot, uint32_t partition);
  void show_contexts(uint32_t partition);
  void show(const Slot& slot);
  control::LedgerPage& page() const { return *(control::LedgerPage*)page_->data(); }
  size_t index_of(const Slot& slot) const { return (size_t)(&slot - slots_.data()); }
  off_t place_of(const Slot& slot) const {
    return (off_t)((uint32_t)index_of(slot) * sizeof(Record));
  }

  int fd_;
  std::unique_ptr<SealedMemory> page_;  // sessions read it, the launcher never does
  uint64_t limit_bytes_[wire::kMaxDevices] = {}, context_bytes_[wire::kMaxDevices] = {};
  std::array<Slot, control::kLedgerSessions> slots_;
};

}  // namespace busbar::launcher

#include "server/suspension.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "control/failpoints.h"
#include "server/pipeline.h"
#include "server/session_end.h"
#include "transport/clock.h"

namespace busbar::server {

namespace {
// Failpoint: a session stops at a step of a suspension, so that a test can kill it there.
void reach(const char* step) {
  static const char* stopped_at = control::failpoint("SUSPENSION");
  while (stopped_at && !std::strcmp(stopped_at, step)) poll(nullptr, 0, -1);
}
}  // namespace

Suspension::Suspension(Pipeline& pipeline) : p_(pipeline), image_(pipeline.session) {}

void Suspension::request(uint32_t patience_ms, uint64_t host_bytes) {
  host_bytes_ = host_bytes;
  deadline_ms_ = transport::now_ms() + patience_ms;
  requested_ = true;
  begin_requested();
}

// The launcher knows the end of a phase before this session has left it, so its next request can
// come in any phase. It waits for `running`.
void Suspension::begin_requested() {
  if (phase_ != Phase::running || !requested_.exchange(false)) return;
  resumption_requested_ = false;
  phase_ = Phase::draining;
}

// Returns the work for which a suspension waits; null if there is none.
const char* Suspension::pending_work() const {
  Session& s = p_.session;
  if (s.active_captures) return "a stream is being captured";
  if (!p_.host_functions.empty()) return "a host function of the program runs";
  if (s.posted_bytes || !p_.contexts.empty()) return "a call of the program runs";
  if (!p_.fences.completions().idle()) return "work of the GPU has not ended";
  return nullptr;
}

// Work may wait for a later record, which therefore must run.
bool Suspension::may_hold_while_draining() const {
  Session& s = p_.session;
  return !s.active_captures && p_.host_functions.empty() && !s.work_waits;
}

bool Suspension::keeps_work() const {
  return is_draining() && may_hold_while_draining();
}

bool Suspension::drain() {
  const char* pending = pending_work();
  if (!pending) {
    reach("drained");
    phase_ = Phase::saving;  // before the work, which ends this phase
    post(&Suspension::save);
    return true;
  }
  if (transport::now_ms() < deadline_ms_) return may_hold_while_draining();
  abandon(pending);
  return false;
}

void Suspension::abandon(const std::string& reason) {
  p_.session.account.keep_memory(reason);
  enter(Phase::running);
}

bool Suspension::holds(bool has_records) {
  switch (phase_.load()) {
    case Phase::running: return false;
    case Phase::draining: return drain();
    case Phase::suspended:
      if (!has_records && !resumption_requested_) return true;
      phase_ = Phase::resuming;
      post(&Suspension::resume);
      return true;
    case Phase::saving:
    case Phase::resuming: return true;
  }
  return false;
}

int Suspension::wait_ms(int most) const {
  if (!is_draining()) return most;
  return (int)std::clamp<int64_t>(deadline_ms_ - transport::now_ms(), 0, most);
}

void Suspension::wait_for_change(int timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms));
}

void Suspension::post(void (Suspension::*work)()) {
  p_.workers.memory.post(nullptr, [this, work] { (this->*work)(); });
}

void Suspension::enter(Phase phase) {
  phase_ = phase;
  begin_requested();
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  p_.session.link.wake();
}

void Suspension::fail(const char* step, CUresult error) {
  end_session(
      p_.session.link, error,
      {control::SessionEnd::memory_failed, std::string("its memory could not be ") + step +
                                               " (error " + std::to_string((int)error) + ")"});
}

// Thread `memory`.
void Suspension::save() {
  std::string reason = image_.save(host_bytes_);
  if (!reason.empty()) return abandon(reason);
  reach("saved");
  if (CUresult r = image_.release()) fail("released", r);
  reach("released");
  bool confirmed = p_.session.account.confirm_suspension();
  reach("confirmed");
  if (!confirmed) resumption_requested_ = true;
  enter(Phase::suspended);
}

// Thread `memory`. All sessions charge partitions in the same order, so none waits for one that
// waits for it.
void Suspension::resume() {
  Session& s = p_.session;
  auto needed = image_.needed_bytes();
  for (uint32_t partition = 0; partition < needed.size(); ++partition)
    if (needed[partition]) s.account.reserve_when_free(partition, needed[partition]);
  reach("charged");
  if (CUresult r = image_.restore()) fail("restored", r);
  reach("restored");
  s.account.confirm_resumption();
  enter(Phase::running);
}

}  // namespace busbar::server

// Work that has not ended within the time that a turn has for it.
#include <algorithm>

#include "control/hex.h"
#include "control/log.h"
#include "launcher/arbiters.h"

namespace busbar::launcher {

// Work that may wait for later work of the same session must get a turn again.
void Arbiters::mark_overdue(Gpu& gpu, const Arbiter::Id& id, Microseconds now) {
  for (auto& [member, partition] : places_on(gpu, id)) {
    Place& place = member->places[partition];
    bool has_turn = place.stage == Stage::holds || place.stage == Stage::draining;
    if (!has_turn) continue;
    bool is_news = !place.sliced_at || now - place.sliced_at > kShown;
    place.stage = Stage::wants;
    place.is_single = false;
    place.is_overdue = true;
    place.sliced_at = now;
    if (place.late_from == Arbiter::kNever) {
      place.late_from = gpu.arbiter.late(id);
      place.late_turn = place.turn;
    }
    if (is_news)
      control::log_line("arbiter", "turn did not end in 500 ms",
                        control::hex(member->session.data(), 16),
                        "other allocations use the GPU beside it");
  }
}

// A late turn has ended when the work of all of its sessions has.
void Arbiters::update_late(Gpu& gpu, const Arbiter::Id& id, Microseconds now) {
  bool any_late = std::ranges::any_of(
      places_on(gpu, id), [](auto& entry) { return is_late(entry.first->places[entry.second]); });
  if (!any_late) gpu.arbiter.late_drained(id, now);
}

// The work of a turn has ended that had not when the session got a later one. What it submitted
// in later turns has had no time to end, and is late from now on if those are over.
void Arbiters::apply_drained_before(Member& member, Place& place, Microseconds now) {
  Gpu& gpu = *place.gpu;
  const Arbiter::Id& id = member.allocation->id;
  place.late_from = place.is_overdue ? gpu.arbiter.late(id) : Arbiter::kNever;
  place.late_turn = place.turn;
  update_late(gpu, id, now);
}

std::map<SessionId, uint32_t> Arbiters::too_late() {
  FairLock lock(mutex_);
  std::map<SessionId, uint32_t> found;
  for (auto& [fd, member] : members_) {
    const Allocation& a = *member->allocation;
    uint32_t seconds = a.grant.max_late_seconds;
    if (!a.is_granted || !seconds) continue;
    auto limit = (Microseconds)seconds * 1'000'000;  // NOLINT(custom-unchecked-product): 32 bits
    for (const Place& place : member->places)
      if (is_late(place) && place.gpu->arbiter.late(a.id) - place.late_from >= limit)
        found[member->session] = seconds;
  }
  return found;
}

}  // namespace busbar::launcher

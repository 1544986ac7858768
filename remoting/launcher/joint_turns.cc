#include "launcher/joint_turns.h"

#include <algorithm>

namespace busbar::launcher::joint_turns {

namespace {
// A turn that has begun, or whose work was there before turns, ends everywhere if it lacks a GPU.
bool must_end(const Group& group) {
  auto ends = [&](Arbiter* a) {
    return a->holder() == group.id && a->is_revoked();
  };
  auto began = [&](Arbiter* a) {
    return a->holder() == group.id && a->has_begun();
  };
  auto lacks = [&](Arbiter* a) {
    return a->holder() != group.id;
  };
  return std::ranges::any_of(group.arbiters, ends) ||
         (std::ranges::any_of(group.arbiters, began) && std::ranges::any_of(group.arbiters, lacks));
}

bool end_everywhere(const Group& group, Microseconds now) {
  bool changed = false;
  for (Arbiter* a : group.arbiters) {
    if (a->holder() != group.id || a->is_revoked()) continue;
    a->revoke(now);
    changed = true;
  }
  return changed;
}

bool begin(const Group& group, Microseconds now) {
  bool changed = false;
  for (Arbiter* a : group.arbiters) {
    changed |= !a->has_begun();
    a->begin(now);
  }
  return changed;
}

bool call(const Group& group, Microseconds now) {
  for (Arbiter* a : group.arbiters) a->call(group.id, now);
  return true;
}

bool is_due(const Group& group) {
  return std::ranges::all_of(group.arbiters,
                             [&](Arbiter* a) { return !a->is_called() && a->is_due(group.id); });
}

// Begins or ends the turn of a group, or calls the next one unless others come first somewhere.
bool advance_group(const Group& group, Microseconds now) {
  if (is_ready(group)) return begin(group, now);
  if (must_end(group)) return end_everywhere(group, now);
  auto others_first = [&](Arbiter* a) {
    return a->is_turn_of_others(group.id);
  };
  return is_due(group) && std::ranges::none_of(group.arbiters, others_first) && call(group, now);
}

// Groups that overlap in a ring may all come second somewhere. Then the first one whose GPUs are
// all free is called.
bool call_one_anyway(const std::vector<Group>& groups, Microseconds now) {
  auto is_free = [](Arbiter* a) {
    return !a->holder();
  };
  auto it = std::ranges::find_if(groups, [&](const Group& group) {
    return is_due(group) && std::ranges::all_of(group.arbiters, is_free);
  });
  return it != groups.end() && call(*it, now);
}
}  // namespace

bool is_ready(const Group& group) {
  return std::ranges::all_of(
      group.arbiters, [&](Arbiter* a) { return a->holder() == group.id && !a->is_revoked(); });
}

bool has_begun(const Group& group) {
  return is_ready(group) && std::ranges::all_of(group.arbiters, &Arbiter::has_begun);
}

bool advance(const std::vector<Group>& groups, Microseconds now) {
  bool changed = false;
  for (auto& group : groups) changed |= advance_group(group, now);
  return changed || call_one_anyway(groups, now);
}

}  // namespace busbar::launcher::joint_turns

// Gives allocations their turns on several GPUs together. A kernel that waits for a kernel on
// another GPU keeps its GPU until that kernel has run. If turns were given one by one, two such
// allocations could each hold a GPU for which the other waits.
//
// A turn is called on all GPUs at once, when the allocation is due on each of them, and one call is
// in force on a GPU at a time. So no allocation holds one GPU and waits for another that is called
// for another allocation. The turn begins when the last of the GPUs has been granted, and ends on
// all of them when it ends on one.
//
// Thread safety: none; these are functions on arbiters of the caller.
#pragma once
#include <vector>

#include "launcher/arbiter.h"

namespace busbar::launcher::joint_turns {

// An account and the arbiters of the GPUs that it uses and must share.
struct Group {
  Arbiter::Id id;
  std::vector<Arbiter*> arbiters;
};

// True while the account holds all of these GPUs: its work may run.
bool is_ready(const Group& group);
bool has_begun(const Group& group);  // and its time runs
// Calls, begins or ends turns, as far as it is time for that. Returns true after a change: the
// caller advances the arbiters and calls it again.
bool advance(const std::vector<Group>& groups, Microseconds now);

}  // namespace busbar::launcher::joint_turns

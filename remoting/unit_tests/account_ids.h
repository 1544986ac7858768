// Accounts of arbiters, for tests.
#pragma once
#include "launcher/arbiter.h"

namespace busbar::launcher {

constexpr Arbiter::Id kA{1}, kB{2}, kC{3}, kD{4}, kCapped{5}, kJoint{6}, kPaused{7}, kSteady{8},
    kX{9}, kY{10}, kHostile{11}, kVictim{1'000'000};
constexpr Arbiter::Id kTenant{Arbiter::Id::kDebts};

}  // namespace busbar::launcher

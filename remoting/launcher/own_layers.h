// Layers of isolation that session servers take for themselves.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>

namespace busbar::launcher {

// Returns the bits of control::Isolation that this kernel permits.
uint32_t own_layers();

}  // namespace busbar::launcher

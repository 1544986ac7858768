// Decoding of the description of devices that a node sends when a session opens.
//
// Thread safety: used while the session opens, by one thread.
#pragma once
#include <string>
#include <vector>

#include "client/session.h"

namespace busbar::client {

// Adds the devices of one node to the session. `domain` becomes their PCI domain. A device whose
// arena is among `free_addresses` gets a heap; the remaining addresses are released.
CUresult read_devices(Session* s, Link* link, uint32_t domain, const std::string& description,
                      std::vector<uint64_t> free_addresses);

// Releases the addresses of a device that the process no longer uses.
void release_arena(const Device& d);

// Selects and orders the devices of CUDA by CUDA_VISIBLE_DEVICES and numbers them.
void apply_visible_devices(Session* s);

}  // namespace busbar::client

// Thread safety: any thread.
#pragma once

namespace busbar::control {

// Lets this process have as many descriptors as a node with many sessions needs, if the system
// permits it.
void raise_descriptor_limit();

}  // namespace busbar::control

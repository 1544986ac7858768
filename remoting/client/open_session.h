// Opening of the session.
//
// Thread safety: any thread; concurrent calls wait for the first one.
#pragma once
#include <cuda.h>

namespace busbar::client {

// Opens the links of all nodes in the ticket file, reads their devices and publishes the session.
// Does nothing if the session is open. Blocks for several round trips. On failure, prints the
// reason and returns CUDA_ERROR_NO_DEVICE; after exit or fork, CUDA_ERROR_NOT_INITIALIZED.
CUresult open_session();

}  // namespace busbar::client

// Opening of the session.
//
// Thread safety: any thread; concurrent calls wait for the first one.
#pragma once
#include <cuda.h>

namespace busbar::client {

// Opens the links of all nodes in the ticket file, reads their devices and publishes the session,
// for NVML. Does nothing if the session is open. Blocks for several round trips. On failure, prints
// the reason and returns CUDA_ERROR_NO_DEVICE; after exit, CUDA_ERROR_NOT_INITIALIZED. A forked
// child has no session until it opens one.
CUresult open_session();

// Opens the session and gives it to CUDA calls, with the devices of CUDA_VISIBLE_DEVICES, which
// only the first call reads. Does nothing if CUDA calls have the session. If no device is visible,
// returns CUDA_ERROR_NO_DEVICE, and CUDA calls have no session. In a process that was forked after
// CUDA calls had a session, returns CUDA_ERROR_NOT_INITIALIZED.
CUresult initialize_cuda();

}  // namespace busbar::client

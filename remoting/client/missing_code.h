// The line that tells the program's user what to ask a compiler for when the GPU of the node cannot
// run an image.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <string_view>

namespace busbar::client {

struct Device;

// Prints the line once for each GPU if the status of a load or link is
// CUDA_ERROR_NO_BINARY_FOR_GPU. `log` is the error log of the node; it may be empty.
void explain_missing_code(const Device* d, CUresult status, std::string_view log);

}  // namespace busbar::client

// Memory that both program and GPU access: managed memory (managed.h) and mapped host memory
// (mapped.h). Its two copies are synchronized when work is submitted and after waits, as CUDA
// requires of programs.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include "client/host_mirror_count.h"

namespace busbar::client {

struct Stream;

// Sends the changes of the program to the node. Call it before work is submitted to a stream.
CUresult flush_host_mirrors(Stream& s);

}  // namespace busbar::client

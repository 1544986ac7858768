// Faults of kernels: a failed check or a signal ends the kernel and not the process.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <functional>

#include "softgpu/device/cta.h"

namespace softgpu {

struct Fault {
  int kind = 0;          // FAULT_* of cta.h, 0 for none
  uint64_t address = 0;  // for address faults
};

// Run code of a kernel on this thread and return its fault. Signals of other code go to the
// handlers that the program had before.
Fault run_guarded(const std::function<void()>& kernel);
// End the kernel that runs on this thread.
[[noreturn]] void raise_fault(int kind, uint64_t address);

}  // namespace softgpu

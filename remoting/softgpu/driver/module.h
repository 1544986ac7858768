// Modules and kernels. A library is a module; a CUfunction and a CUkernel are the same object.
//
// Thread safety: a module does not change after load_module, except for KernelState::compiled,
// which KernelState::mutex guards. compile_kernel blocks while the C compiler runs.
#pragma once
#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softgpu/device/grid.h"
#include "softgpu/jit/messages.h"

namespace softgpu {

struct ModuleState;

struct KernelState {
  ModuleState* module = nullptr;
  jit::KernelDescription description;
  std::mutex mutex;
  std::shared_ptr<const CompiledKernel> compiled;   // null until it is first needed
  std::atomic<int> dynamic_shared_limit{48 << 10};  // bytes
  // Other attributes that the program has set. They have no effect: clusters have one block here.
  std::array<std::atomic<int>, CU_FUNC_ATTRIBUTE_MAX> attributes{};
};

struct GlobalState {
  uint64_t address = 0, bytes = 0;
};

struct ModuleState {
  int ordinal = 0;          // device
  bool refused = false;     // a library whose PTX is invalid, which its use reports
  int max_registers = 255;  // of a thread, as the linker was configured
  std::string ptx;
  std::map<std::string, std::unique_ptr<KernelState>> kernels;
  std::vector<KernelState*> order;  // as in the PTX text
  std::map<std::string, GlobalState> globals;
  uint64_t memory = 0, memory_bytes = 0;  // of all module variables
};

// Load a module for a device. On failure `log`, if not null, gets the reason.
CUresult load_module(const void* image, int ordinal, ModuleState*& out, std::string* log);
void unload_module(ModuleState* m);
// Compile a kernel unless that is done. On failure `log`, if not null, gets the reason.
CUresult compile_kernel(KernelState* k, std::string* log);
// Return the kernel of a handle, or null.
KernelState* kernel_of(CUfunction f);

}  // namespace softgpu

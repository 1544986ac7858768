// A loaded module of the program, and the ids of its functions.
//
// Thread safety: any thread. Every user holds a reference, because the worker thread may read a
// module while the executor unloads it. The thread that drops the last reference unloads it.
#pragma once
#include <cuda.h>

#include <memory>
#include <mutex>
#include <vector>

#include "server/driver.h"
#include "server/function_table.h"
#include "server/memory_charge.h"

namespace busbar::server {

class LoadedModule {
 public:
  // `charge` is of its memory.
  LoadedModule(Driver& driver, CUmodule module, MemoryCharge charge)
      : handle(module), cu_(driver), charge_(std::move(charge)) {}
  LoadedModule(const LoadedModule&) = delete;
  // Releases the charge if the driver has unloaded the module, which it refuses after a fault.
  ~LoadedModule() {
    if (cu_.cuModuleUnload(handle)) charge_.keep();
  }
  const CUmodule handle;

  // Adds a function to the table, unless remove_functions() was called before.
  CUresult add_function(FunctionTable& table, uint32_t id, CUfunction f) {
    std::lock_guard lock(mutex_);
    if (removed_) return CUDA_ERROR_INVALID_HANDLE;
    if (!table.add(id, f)) return CUDA_ERROR_INVALID_VALUE;
    functions_.push_back(id);
    return CUDA_SUCCESS;
  }
  // Removes all functions from the table, so that nothing calls them after the unload.
  void remove_functions(FunctionTable& table) {
    std::lock_guard lock(mutex_);
    removed_ = true;
    for (uint32_t id : functions_) table.remove(id);
  }

 private:
  Driver& cu_;
  MemoryCharge charge_;
  std::mutex mutex_;
  std::vector<uint32_t> functions_;
  bool removed_ = false;
};
using ModuleRef = std::shared_ptr<LoadedModule>;

}  // namespace busbar::server

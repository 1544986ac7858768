// A loaded module of the program.
//
// Thread safety: constant. Every user holds a reference, because the worker thread may read a
// module while the executor unloads it. The thread that drops the last reference unloads it.
#pragma once
#include <cuda.h>

#include <memory>

#include "server/driver.h"

namespace busbar::server {

struct LoadedModule {
  LoadedModule(Driver& driver, CUmodule module) : cu(driver), handle(module) {}
  LoadedModule(const LoadedModule&) = delete;
  ~LoadedModule() { cu.cuModuleUnload(handle); }
  Driver& cu;
  const CUmodule handle;
};
using ModuleRef = std::shared_ptr<LoadedModule>;

}  // namespace busbar::server

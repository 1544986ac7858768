// State of the driver in this process: devices, compiler process, live handles and memory.
//
// Thread safety: members are guarded by Driver::mutex, except those that start_driver sets and that
// never change afterwards: config, devices and compiler. All functions may be called from any
// thread.
#pragma once
#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "softgpu/device/engine.h"
#include "softgpu/device/grid.h"
#include "softgpu/driver/allocation.h"
#include "softgpu/jit/compiler.h"

namespace softgpu {

struct Context;
struct PhysicalMemory;

// Physical memory at an address.
struct Mapping {
  PhysicalMemory* memory = nullptr;
  uint64_t bytes = 0;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};

constexpr int kDriverVersion = 13000;  // of CUDA

struct DeviceState {
  int ordinal = 0;  // CUdevice
  int index = 0;    // on this machine, whatever CUDA_VISIBLE_DEVICES says
  Engine* engine = nullptr;
  std::unique_ptr<GridRunner> runner;  // made with the first context
  uint64_t heap_bytes = 0;             // charged for the heap of kernels; guarded by cuCtxSetLimit
  Context* primary = nullptr;
  int primary_references = 0;
  unsigned primary_flags = 0;
};

// Made by start_driver and never destroyed: programs call the driver while their static objects are
// destroyed.
struct Driver {
  std::mutex mutex;
  DeviceConfig config;
  std::vector<std::unique_ptr<DeviceState>> devices;
  jit::Compiler compiler;
  std::map<const void*, const void*> handles;  // live objects to their type; see handles.h
  std::map<uint64_t, Allocation> allocations;  // by base address
  std::map<uint64_t, Mapping> mappings;        // by address
  uint64_t next_id = 1;                        // of contexts and allocations
};

// Open the devices that CUDA_VISIBLE_DEVICES names and start the compiler process, unless that is
// done. Only the first call reads the variable. Return an error in a forked child.
CUresult start_driver();
// Return the driver; null before start_driver and in a forked child.
Driver* driver();
// Return a device; null if there is no such device.
DeviceState* device_at(int ordinal);

}  // namespace softgpu

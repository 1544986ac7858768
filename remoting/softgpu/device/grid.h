// Runs the thread blocks of launches on a fixed number of worker threads, in slices that alternate
// with those of other processes.
//
// Thread safety: run may be called from several threads; one grid runs at a time. stop may be
// called from any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checked_size.h"
#include "softgpu/device/cta.h"
#include "softgpu/device/engine.h"
#include "softgpu/device/faults.h"
#include "softgpu/device/heap.h"

namespace softgpu {

// A compiled kernel that is loaded in this process. Sizes in bytes, except registers.
struct CompiledKernel {
  int (*run)(Cta*) = nullptr;
  uint64_t (*frame_bytes)(uint32_t threads) = nullptr;
  uint64_t static_shared_bytes = 0, local_bytes = 0, constant_bytes = 0, registers = 0;
  std::vector<uint64_t> globals;  // addresses of module variables
};

struct Launch {
  std::shared_ptr<const CompiledKernel> kernel;  // the module may be unloaded before the launch
  std::string name;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;  // all blocks are resident at the same time
  std::vector<uint8_t> params;

  uint64_t blocks() const { return volume(grid[0], grid[1], grid[2]); }
  uint64_t threads() const { return volume(block[0], block[1], block[2]); }  // of a block
  uint64_t local_bytes() const { return (CheckedSize(kernel->local_bytes) * threads()).value(); }
};

// The shared memory of a block.
struct SharedMemory {
  uint8_t* base;
  uint32_t bytes;
};

// The result of a copy of a tensor: the bytes in shared memory, or the kind and address of a fault.
struct TensorResult {
  uint32_t bytes = 0;
  int fault = 0;
  uint64_t address = 0;
};

class GridRunner {
 public:
  // Look-ups in the tables of the driver. Worker threads call them.
  struct HostMemory {
    bool (*registered)(uint64_t address, uint32_t bytes);
    bool (*sample)(uint64_t texture, const TextureRead& read, uint32_t* out);
    // Return 0 or the kind of a fault.
    int (*access_surface)(uint64_t surface, const SurfaceAccess& access, uint64_t* values);
    bool (*query)(uint64_t object, const ObjectQuery& query, uint32_t& value);
    TensorResult (*copy_tensor)(uint64_t map, const TensorCopy& copy, const SharedMemory& shared);
  };
  GridRunner(Engine* engine, unsigned workers, const HostMemory& host);
  Fault run(const Launch& launch);  // blocks until the grid is complete
  void stop();                      // ends a running launch early
  KernelHeap& heap() { return heap_; }
  const HostMemory& host() const { return host_; }

 private:
  struct Worker;
  struct Job;
  void work(Worker& w, Job& job);
  Cta make_block(const Launch& l, uint64_t shared_base, uint64_t local_base, void* frames,
                 uint32_t worker);
  static uint32_t shared_bytes(const Launch& l);
  Fault run_cooperative(const Launch& l);
  void run_slices(const CompiledKernel& k, std::vector<Cta>& blocks, uint64_t& begin);
  void thread_main(Worker* w);
  Engine* engine_;
  std::vector<Worker*> workers_;
  struct Rendezvous;
  Rendezvous* rendezvous_;
  KernelHeap heap_;
  HostMemory host_;
  volatile int stop_ = 0;
};

}  // namespace softgpu

// Runs the thread blocks of one launch on a fixed number of worker threads, in turns with other processes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "softgpu/device/cta.h"
#include "softgpu/device/engine.h"

namespace softgpu {

struct CompiledKernel {
  void (*run)(Cta*) = nullptr;
  uint64_t (*frame_bytes)(uint32_t threads) = nullptr;
  uint64_t static_shared_bytes = 0, local_bytes = 0;
  std::vector<uint64_t> globals;
};

struct Launch {
  const CompiledKernel* kernel = nullptr;
  std::string name;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  std::vector<uint8_t> params;
};

struct Fault {
  int kind = 0;              // FAULT_* of cta.h, 0 for none
  uint64_t address = 0;
};

class GridRunner {
 public:
  GridRunner(Engine* engine, unsigned workers);
  Fault run(const Launch& launch);   // blocks until the grid is done; one grid at a time
  void stop();                       // ends a running launch early, from another thread

 private:
  struct Worker;
  struct Job;
  void work(Worker& w, Job& job);
  void thread_main(Worker* w);
  Engine* engine_;
  std::vector<Worker*> workers_;
  struct Gate;
  Gate* gate_;
  volatile int stop_ = 0;
};

}  // namespace softgpu

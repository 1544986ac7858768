// One launch of an executable graph.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "softgpu/driver/graph_exec.h"
#include "softgpu/driver/stream.h"

namespace softgpu {

struct EventState;

// Copies of the steps, so that changes apply to later launches.
struct GraphLaunch {
  std::vector<std::function<CUresult()>> runs;
  std::vector<EventState*> recorded;
  std::vector<StreamDependency> dependencies;
  std::shared_ptr<HeldObjects> objects;
  std::shared_ptr<uint64_t> stamp = std::make_shared<uint64_t>(0);  // of the recorded events

  // Takes GraphExec::mutex, and under it Context::mutex.
  explicit GraphLaunch(GraphExec* e);

 private:
  void add(const GraphExec::Step& step);
};

}  // namespace softgpu

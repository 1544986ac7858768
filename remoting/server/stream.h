// A stream of the program.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>

#include "server/stream_use.h"
#include "server/turn_gate.h"

namespace busbar::server {

struct StreamState {
  CUstream handle = nullptr;  // what calls are made on
  // The stream of the program while `handle` stands for it in a capture (capture.h); else null.
  CUstream uncaptured = nullptr;
  uint32_t id = 0;
  uint32_t context = 0;
  int priority = 0;
  bool blocking = true;  // ordered with the legacy stream of its context
  bool legacy = false;
  uint64_t last_work = 0;   // position up to which work is submitted
  uint64_t last_fence = 0;  // position of the newest completion fence
  bool listed = false;      // in the fence recorder's list of streams
  // While a stream is captured its calls become graph nodes, and no completion fence is recorded.
  bool capturing = false;
  CUresult capture_error = CUDA_SUCCESS;  // first error of the capture
  // The graph of the capture that began on this stream. The stream owns it until the capture ends.
  CUgraph captured_graph = nullptr;
  bool captures_new_graph = false;  // which ends with the capture unless that succeeds
  bool began_capture = false;       // it did not join that of another stream
  std::shared_ptr<StreamUse> use = std::make_shared<StreamUse>();
  TurnGate* gate = nullptr;   // of its GPU; null: no turns
  WorkBatch unfenced;         // records with work of the GPU behind its newest fence
  uint64_t newest_fence = 0;  // for the gate, the number of its newest fence
  bool works = false;         // a record with such work is being submitted, maybe in parts
};

}  // namespace busbar::server

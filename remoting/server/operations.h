// The table of operations: order, thread and handler of the records of each opcode. Its rows derive
// from wire/opcodes.h and, for CUDA calls, from spec/cuda_driver.spec.
//
// Thread safety: the tables are constant.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string>

#include "server/handlers.h"
#include "wire/decode.h"
#include "wire/opcodes.h"

namespace busbar::server {

// A generated call: decodes its arguments, calls the driver and appends the results.
using DriverCall = CUresult (*)(Session&, wire::Decoder&, CUstream, std::string& results);

// Exactly one of the handlers `session`, `pipeline`, `stream` and `call` is set.
struct Operation {
  const char* name;
  wire::Order order;
  wire::Thread thread;
  SessionHandler session = nullptr;
  PipelineHandler pipeline = nullptr;
  StreamHandler stream = nullptr;
  TransferOf transfer = nullptr;  // optional, beside `stream`
  DriverCall call = nullptr;
  wire::Op op = {};         // of a row of wire/opcodes.h
  bool work_waits = false;  // its work on the GPU may wait for a later record
  bool uses_gpu = false;    // it needs a turn
  // Of a record that changes an executable graph: where its handle stands in the payload. 0: none.
  uint32_t exec_at = 0;
};

// Returns null for an unknown opcode.
const Operation* find_operation(uint16_t opcode);

}  // namespace busbar::server

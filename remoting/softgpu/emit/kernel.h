// Translates one kernel of a PTX module to a C file.
#pragma once
#include <string>
#include <vector>

#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

// The C of a kernel, and the data with which the driver runs it.
struct KernelSource {
  std::string text;
  bool serial = false;               // serial mode: its thread loops are worth vectorising
  std::vector<std::string> globals;  // module variables in the order of Cta.globals
  uint64_t shared_bytes = 0;         // static shared memory
  uint64_t local_bytes = 0;          // stack of one thread, calls included
  uint64_t constant_bytes = 0;       // constant variables that the kernel uses
  uint64_t registers = 0;  // 32-bit registers that a compiler without register sharing would need
};

// Translate a kernel. The C contains no name of the PTX text. Throw ptx::Refusal if the kernel has
// an instruction that is malformed or not supported.
KernelSource emit_kernel(const ptx::Module& module, const ptx::Function& written);

}  // namespace softgpu::emit

// libFuzzer target: untrusted PTX through lexer, parser, control flow analysis and emitter. Nothing
// is compiled or run. The C must contain no name of the input.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "softgpu/emit/kernel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace softgpu;
  try {
    ptx::Module m = ptx::parse(std::string((const char*)data, size));
    for (auto& f : m.functions) {
      if (!f.entry || !f.defined) continue;
      try {
        auto source = emit::emit_kernel(m, f);
        if (source.text.find("hostile_name") != std::string::npos) abort();
      } catch (const ptx::Refusal&) {  // the only exception that is allowed
      }
    }
  } catch (const ptx::Refusal&) {
  }
  return 0;
}

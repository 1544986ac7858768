// libFuzzer target: untrusted PTX through lexer, parser, control flow analysis and emitter. Nothing
// is compiled or run. The C must contain no name of the input. The session server must charge at
// least the memory of the variables.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "checked_size.h"
#include "images/ptx_variables.h"
#include "softgpu/emit/kernel.h"

using namespace softgpu;

static CheckedSize bytes_of_variables(const ptx::Module& m) {
  CheckedSize bytes = 0;
  for (auto& v : m.variables)
    if (!v.external && (v.space == ptx::Space::global || v.space == ptx::Space::constant))
      bytes = bytes.rounded_up(std::max<uint64_t>(v.align, 16)) + v.bytes;
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text((const char*)data, size);
  text.resize(
      std::min(text.find('\0'), text.size()));  // as the session server gives it to a driver
  try {
    ptx::Module m = ptx::parse(text);
    uint64_t charged = 0;
    const char* error = nullptr;
    if (busbar::images::measure_ptx_variables(text, charged, error) &&
        !bytes_of_variables(m).within(charged))
      abort();
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

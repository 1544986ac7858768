// libFuzzer target: untrusted PTX through lexer, parser, control flow and emitters. Nothing is
// compiled or run. The C that comes out must name nothing of the input: its identifiers are numbers
// of ours.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "softgpu/emit/emitter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace softgpu;
  try {
    ptx::Module m = ptx::parse(std::string((const char*)data, size));
    for (auto& f : m.functions) {
      if (!f.entry || !f.defined) continue;
      try {
        auto source = emit::emit_kernel(m, f);
        if (source.text.find("hostile_name") != std::string::npos) abort();
      } catch (const ptx::Refusal&) {  // the only way out: it names the line
      }
    }
  } catch (const ptx::Refusal&) {
  }
  return 0;
}

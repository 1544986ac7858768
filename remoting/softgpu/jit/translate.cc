// softgpu-translate: prints the C of every kernel of PTX files, for debugging and for comparing two
// versions of the translator. Nothing is compiled or run.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "softgpu/emit/kernel.h"

using namespace softgpu;

static void translate(const ptx::Module& module) {
  for (auto& f : module.functions) {
    if (!f.entry || !f.defined) continue;
    std::printf("// kernel %s\n", f.name.c_str());
    try {
      auto source = emit::emit_kernel(module, f);
      std::printf("// shared %llu, local %llu, constant %llu bytes; %llu registers; serial %d\n%s",
                  (unsigned long long)source.shared_bytes, (unsigned long long)source.local_bytes,
                  (unsigned long long)source.constant_bytes, (unsigned long long)source.registers,
                  (int)source.serial, source.text.c_str());
    } catch (const ptx::Refusal& r) {
      std::printf("// line %d: %s\n", r.line, r.message.c_str());
    }
  }
}

int main(int count, char** paths) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    std::printf("// file %s\n", paths[i]);
    try {
      translate(ptx::parse(text));
    } catch (const ptx::Refusal& r) {
      std::printf("// line %d: %s\n", r.line, r.message.c_str());
    }
  }
  return count > 1 ? 0 : 2;
}

// softgpu-translate: prints the C of every kernel of PTX files, for debugging and for comparing two
// versions of the translator. Nothing is compiled or run. With --digest it prints one line for each
// kernel: a number that identifies the C, or the refusal.
#include <cstdio>
#include <fstream>
#include <functional>
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

static void digest(const ptx::Module& module) {
  for (auto& f : module.functions) {
    if (!f.entry || !f.defined) continue;
    try {
      auto source = emit::emit_kernel(module, f);
      std::printf("%s %zx\n", f.name.c_str(), std::hash<std::string>()(source.text));
    } catch (const ptx::Refusal& r) {
      std::printf("%s line %d: %s\n", f.name.c_str(), r.line, r.message.c_str());
    }
  }
}

int main(int count, char** paths) {
  bool digests = count > 1 && std::string(paths[1]) == "--digest";
  for (int i = digests ? 2 : 1; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!digests) std::printf("// file %s\n", paths[i]);
    try {
      digests ? digest(ptx::parse(text)) : translate(ptx::parse(text));
    } catch (const ptx::Refusal& r) {
      std::printf("// line %d: %s\n", r.line, r.message.c_str());
    }
  }
  return count > 1 ? 0 : 2;
}

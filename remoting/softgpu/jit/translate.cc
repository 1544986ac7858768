// softgpu-translate: prints the C of every kernel of PTX files, for debugging and for comparing two
// versions of the translator. Nothing is compiled or run. With --digest it prints one line for each
// kernel: a number that identifies the C, or the refusal. With --verdicts the files have many
// modules, each of which ends with a NUL; it prints one line for each: "accepted" or the first
// refusal.
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
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

static void verdict(const std::string& text) {
  try {
    ptx::Module module = ptx::parse(text);
    for (auto& f : module.functions)
      if (f.entry && f.defined) (void)emit::emit_kernel(module, f);
    std::puts("accepted");
  } catch (const ptx::Refusal& r) {
    std::printf("line %d: %s\n", r.line, r.message.c_str());
  }
}

static void verdicts(const std::string& modules) {
  std::istringstream texts(modules);
  for (std::string text; std::getline(texts, text, '\0');) verdict(text);
}

int main(int count, char** paths) {
  std::string mode = count > 1 ? paths[1] : "";
  bool digests = mode == "--digest", whole = mode != "--verdicts";
  for (int i = digests || !whole ? 2 : 1; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!whole) {
      verdicts(text);
      continue;
    }
    if (!digests) std::printf("// file %s\n", paths[i]);
    try {
      digests ? digest(ptx::parse(text)) : translate(ptx::parse(text));
    } catch (const ptx::Refusal& r) {
      std::printf("// line %d: %s\n", r.line, r.message.c_str());
    }
  }
  return count > 1 ? 0 : 2;
}

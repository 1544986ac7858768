// softgpu-probe: runs kernels of a PTX file between guard pages, for tests of the checks.
//
// Each line of the input names a kernel, a number of threads and 64-bit parameters in hexadecimal.
// The answer is a line: `done` and the bytes of the window's page kOutputPage, `fault KIND
// ADDRESS`, `touched ADDRESS`, `changed CANARY` or `refused MESSAGE`. AddressSanitizer ends the
// program at an access outside of a variable.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

#include "softgpu/bounds/kernel_library.h"

using namespace softgpu;

namespace {

constexpr uint64_t kOutputAt = 0x7000, kOutputBytes = 512;  // in the window

struct Program {
  ptx::Module module;
  std::map<std::string, bounds::EmittedKernel> kernels;

  const bounds::EmittedKernel& kernel(const std::string& name) {
    auto it = kernels.find(name);
    if (it != kernels.end()) return it->second;
    const ptx::Function* f = module.find(name);
    if (!f) throw ptx::Refusal{0, "kernel " + name + " is not in the module"};
    return kernels[name] = bounds::load(emit::emit_kernel(module, *f), module);
  }
};

std::string output() {
  std::string text = "done ";
  char two[3];
  for (uint64_t i = 0; i < kOutputBytes; ++i) {
    std::snprintf(two, sizeof two, "%02x", ((const uint8_t*)SOFTGPU_WINDOW_BASE)[kOutputAt + i]);
    text += two;
  }
  return text;
}

std::string answer(Program& program, const std::string& line) {
  std::istringstream words(line);
  std::string name, word;
  uint32_t threads = 1;
  words >> name >> threads;
  std::vector<uint64_t> parameters;
  while (words >> word) parameters.push_back(std::stoull(word, nullptr, 16));
  bounds::fill_arenas();
  bounds::Outcome outcome = bounds::run(program.kernel(name), threads, parameters);
  if (auto canary = bounds::changed_canary(); !canary.empty()) return "changed " + canary;
  char text[64];
  if (outcome.kind == bounds::Outcome::done) return output();
  if (outcome.kind == bounds::Outcome::touched)
    std::snprintf(text, sizeof text, "touched %llx", (unsigned long long)outcome.address);
  else
    std::snprintf(text, sizeof text, "fault %d %llx", outcome.fault_kind,
                  (unsigned long long)outcome.address);
  return text;
}

}  // namespace

int main(int count, char** paths) {
  if (count != 2) return 2;
  std::ifstream file(paths[1], std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}}, line;
  bounds::map_arenas();
  Program program;
  try {
    program.module = ptx::parse(text);
  } catch (const ptx::Refusal& r) {
    std::cout << "refused " << r.message << '\n' << std::flush;
    return 0;
  }
  while (std::getline(std::cin, line)) try {
      std::cout << answer(program, line) << '\n' << std::flush;
    } catch (const ptx::Refusal& r) {
      std::cout << "refused " << r.message << '\n' << std::flush;
    }
}

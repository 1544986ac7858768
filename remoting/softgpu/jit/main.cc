// The compiler process: it receives untrusted PTX and returns paths of compiled kernels. It has no
// access to device memory or secrets.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "softgpu/emit/kernel.h"
#include "softgpu/jit/cache.h"
#include "softgpu/jit/messages.h"

namespace softgpu::jit {

namespace {

struct Reply {
  Status status;
  std::string body;
};

uint64_t align_up(uint64_t v, uint64_t a) {
  return (v + a - 1) / a * a;
}

// Write pointers to functions into the initial bytes of a variable: their values do not depend on
// addresses.
void place_functions(const ptx::Module& m, const ptx::Variable& v, std::string& initial) {
  for (auto& r : v.references)
    if (auto* f = m.function(r.symbol)) {
      uint64_t value = ptx::function_address((size_t)(f - m.functions.data()));
      for (size_t i = 0; i < 8 && r.at + i < initial.size(); ++i)
        initial[r.at + i] = (char)(value >> (8 * i));
    }
}

ModuleDescription describe(const ptx::Module& m) {
  ModuleDescription d;
  for (auto& f : m.functions) {
    if (!f.entry || !f.defined) continue;
    KernelDescription k{f.name, {}, f.max_threads};
    uint64_t at = 0;
    for (auto& p : f.params) {
      at = align_up(at, p.align);
      k.params.push_back({at, p.bytes});
      at += p.bytes;
    }
    d.kernels.push_back(std::move(k));
  }
  for (auto& v : m.variables) {
    if (v.space != ptx::Space::global && v.space != ptx::Space::constant) continue;
    GlobalDescription g{
        v.name, v.bytes, v.align, std::string(v.initial.begin(), v.initial.end()), {}};
    place_functions(m, v, g.initial);
    for (auto& r : v.references)
      if (!m.function(r.symbol)) g.references.push_back({r.at, r.symbol, (uint64_t)r.addend});
    d.globals.push_back(std::move(g));
  }
  return d;
}

std::string located(const ptx::Refusal& r) {
  return "ptx line " + std::to_string(r.line) + ": " + r.message;
}

// Return one line for each kernel that cannot be translated. Kernels are compiled, and refused,
// when they are first used.
std::string refusals(const ptx::Module& m) {
  std::string out;
  for (auto& f : m.functions) {
    if (!f.entry || !f.defined || out.size() > 8192) continue;
    try {
      emit::emit_kernel(m, f);
    } catch (const ptx::Refusal& r) {
      out += located(r) + "\n";
    }
  }
  return out;
}

Reply handle(uint64_t kind, const std::string& body) {
  Reader in{body};
  std::string name = in.text(), text = in.text();
  if (in.bad) return {Status::invalid_ptx, "malformed request"};
  static std::string last_text;  // most requests are about the same module
  static ptx::Module module;
  try {
    if (text != last_text || last_text.empty()) {
      last_text.clear();
      module = ptx::parse(text);
      last_text = text;
    }
  } catch (const ptx::Refusal& r) {
    return {Status::invalid_ptx, located(r)};
  }
  if (kind == (uint64_t)Request::describe) return {Status::ok, encode(describe(module))};
  if (kind == (uint64_t)Request::examine) return {Status::ok, refusals(module)};
  const ptx::Function* kernel = module.find(name);
  if (!kernel || !kernel->entry)
    return {Status::unknown_kernel, "kernel " + name + " is not in the module"};
  try {
    auto source = emit::emit_kernel(module, *kernel);
    std::string error, path = library_for(source, error);
    if (const char* keep = std::getenv("BUSBAR_SOFTGPU_KEEP_C"); keep && *keep)
      if (FILE* f = fopen(keep, "w")) {
        fputs(source.text.c_str(), f);
        fclose(f);
      }
    if (path.empty()) return {Status::compiler_failed, error};
    return {Status::ok, encode(Compiled{path, source.shared_bytes, source.local_bytes,
                                        source.constant_bytes, source.registers, source.globals})};
  } catch (const ptx::Refusal& r) {
    return {Status::not_supported, located(r)};
  } catch (const std::exception& e) {
    return {Status::not_supported, std::string("malformed instruction: ") + e.what()};
  }
}

// Limit the resources of this process and its children.
void restrict_self() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  rlimit memory{8ull << 30, 8ull << 30}, file{512ull << 20, 512ull << 20}, core{0, 0},
      open{256, 256};
#ifndef __SANITIZE_THREAD__  // its shadow memory needs address space
  setrlimit(RLIMIT_AS, &memory);
#else
  (void)memory;
#endif
  setrlimit(RLIMIT_FSIZE, &file);
  setrlimit(RLIMIT_CORE, &core);
  setrlimit(RLIMIT_NOFILE, &open);
}

}  // namespace
}  // namespace softgpu::jit

// softgpu-compiler [DESCRIPTOR]: serves requests on a socket, which is descriptor 0 by default.
int main(int argc, char** argv) {
  using namespace softgpu::jit;
  int socket = argc > 1 ? std::atoi(argv[1]) : 0;
  restrict_self();
  uint64_t kind;
  std::string body;
  while (receive_message(socket, kind, body)) {
    Reply r = handle(kind, body);
    if (!send_message(socket, (uint64_t)r.status, r.body)) break;
  }
  return 0;
}

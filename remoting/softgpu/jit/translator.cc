#include "softgpu/jit/translator.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "checked_size.h"
#include "softgpu/emit/undefined_names.h"
#include "softgpu/jit/confinement.h"
#include "softgpu/jit/limits.h"

namespace softgpu::jit {

namespace {
// Write pointers to functions into the initial bytes of a variable: their values do not depend on
// addresses.
void place_functions(const ptx::Module& m, const ptx::Variable& v, std::string& initial) {
  for (auto& r : v.references)
    if (auto* f = m.function(r.symbol)) {
      uint64_t value = ptx::function_address((size_t)(f - m.functions.data()));
      std::memcpy(initial.data() + r.at, &value, std::min(sizeof value, initial.size() - r.at));
    }
}

ModuleDescription describe(const ptx::Module& m) {
  ModuleDescription d;
  for (auto& f : m.functions) {
    if (!f.entry || !f.defined) continue;
    KernelDescription k{f.name, {}, f.max_threads};
    uint64_t at = 0;
    for (auto& p : f.params) {
      at = CheckedSize(at).rounded_up(p.align).value();
      k.params.push_back({at, p.bytes});
      at += p.bytes;
    }
    d.kernels.push_back(std::move(k));
  }
  for (auto& v : m.variables) {
    bool is_placed = v.space == ptx::Space::global || v.space == ptx::Space::constant;
    if (!is_placed || v.external) continue;  // another module has the memory of an external one
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

std::string encode(const emit::KernelSource& kernel) {
  Writer w;
  w.text(kernel.text);
  w.u64(kernel.serial);
  w.u64(kernel.shared_bytes);
  w.u64(kernel.local_bytes);
  w.u64(kernel.constant_bytes);
  w.u64(kernel.registers);
  w.u64(kernel.globals.size());
  for (auto& g : kernel.globals) w.text(g);
  return w.bytes;
}

Reply resolve(const ptx::Module& module) {
  std::string text;
  for (auto& name : emit::undefined_names(module))
    text += "error   : Undefined reference to '" + name + "'\n";
  return {text.empty() ? Status::ok : Status::undefined_names, text};
}

Reply translate(const ptx::Module& module, const std::string& name) {
  const ptx::Function* kernel = module.find(name);
  if (!kernel || !kernel->entry)
    return {Status::unknown_kernel, "kernel " + name + " is not in the module"};
  try {
    return {Status::ok, encode(emit::emit_kernel(module, *kernel))};
  } catch (const ptx::Refusal& r) {
    return {Status::not_supported, located(r)};
  }
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
  if (kind == (uint64_t)Request::resolve) return resolve(module);
  return translate(module, name);
}

[[noreturn]] void serve(int socket) {
  uint64_t kind;
  std::string body;
  while (receive_message(socket, kind, body, kNoDeadline)) {
    Reply r;
    try {
      r = handle(kind, body);
    } catch (const std::bad_alloc&) {
      r = {Status::limit_exceeded, "the PTX needs more memory than the limit: make it smaller"};
    } catch (const std::exception& e) {
      r = {Status::not_supported, std::string("malformed instruction: ") + e.what()};
    }
    if (!send_message(socket, (uint64_t)r.status, r.body, kNoDeadline)) break;
  }
  _exit(0);
}
}  // namespace

bool decode(const std::string& bytes, emit::KernelSource& kernel) {
  Reader r{bytes};
  kernel.text = r.text();
  kernel.serial = r.u64();
  kernel.shared_bytes = r.u64();
  kernel.local_bytes = r.u64();
  kernel.constant_bytes = r.u64();
  kernel.registers = r.u64();
  kernel.globals.resize(r.count(8));
  for (auto& g : kernel.globals) g = r.text();
  return !r.bad;
}

bool Translator::start() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return false;
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(session_);
    close(pair[0]);
    if (confine_translator()) serve(pair[1]);
    _exit(1);
  }
  close(pair[1]);
  socket_ = pair[0];
  return pid_ > 0;
}

// End the process and return the answer to the request that it was given.
Reply Translator::end(bool is_late) {
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  close(socket_);
  socket_ = -1;
  if (is_late) return {Status::limit_exceeded, "the PTX was not translated within the time limit"};
  std::string reason = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an error";
  return {Status::compiler_failed,
          "the translator ended while it processed this module: " + reason};
}

Reply Translator::answer(uint64_t kind, const std::string& body, int64_t deadline_ms) {
  if (socket_ < 0 && !start())
    return {Status::limit_exceeded, "no process could be started for the translator"};
  Reply reply;
  uint64_t status;
  if (!send_message(socket_, kind, body, deadline_ms) ||
      !receive_message(socket_, status, reply.body, deadline_ms))
    return end(time_left_ms(deadline_ms) == 0);
  reply.status = (Status)status;
  return reply;
}

}  // namespace softgpu::jit

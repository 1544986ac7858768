// Options of the driver's compiler: those of the program that are numbers, and a log buffer.
#pragma once
#include <cuda.h>

#include <string>
#include <vector>

#include "wire/decode.h"
#include "wire/jit_option.h"

namespace busbar::server {

constexpr size_t kJitLogBytes = 8192;

class JitOptions {
 public:
  // Reads `n` options. False if there are too many, or one is no number: it would be an address of
  // this process.
  bool read(wire::Decoder& in, uint64_t n) {
    std::vector<wire::JitOption> list;
    if (!in.ok() || n > wire::kMaxJitOptions || !in.elements(list, n)) return false;
    for (auto& o : list) {
      if (!wire::is_number(o.option)) return false;
      add((CUjit_option)o.option, (void*)o.value);
    }
    return true;
  }
  // Lets the compiler write its errors to `log`, which must outlive the call.
  void log_to(std::string& log) {
    add(CU_JIT_ERROR_LOG_BUFFER, log.data());
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void*)(uintptr_t)log.size());
  }
  unsigned count() const { return (unsigned)names_.size(); }
  CUjit_option* names() { return names_.data(); }
  void** values() { return values_.data(); }

 private:
  void add(CUjit_option name, void* value) {
    names_.push_back(name);
    values_.push_back(value);
  }
  std::vector<CUjit_option> names_;
  std::vector<void*> values_;
};

}  // namespace busbar::server

// Options of the driver's compiler: those of the program that are numbers, and log buffers.
#pragma once
#include <cuda.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/reply.h"
#include "wire/decode.h"
#include "wire/jit_option.h"

namespace busbar::server {

// The compiler's messages, for the reply to a load or link.
struct JitLogs {
  std::string error, info;

  // Reads the sizes of the logs and makes room for them. False if the client may not ask for one.
  bool read_sizes(wire::Decoder& in) {
    for (std::string* log : {&error, &info}) {
      uint32_t bytes = in.get<uint32_t>();
      if (!bytes || bytes > wire::kMaxJitLogBytes) return false;
      log->assign(bytes, '\0');
    }
    return true;
  }

  // Return the part of the reply that contains the logs.
  std::string encode() const { return encode(error.c_str(), info.c_str()); }
  static std::string encode(const char* error, const char* info = "") {
    std::string out;
    for (const char* text : {error, info}) {
      append<uint32_t>(out, (uint32_t)std::strlen(text));
      out += text;
    }
    return out;
  }
};

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
  // Lets the compiler write to `logs`. They and the options must outlive the load or link.
  void log_to(JitLogs& logs) {
    add(CU_JIT_ERROR_LOG_BUFFER, logs.error.data());
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void*)(uintptr_t)logs.error.size());
    add(CU_JIT_INFO_LOG_BUFFER, logs.info.data());
    add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, (void*)(uintptr_t)logs.info.size());
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

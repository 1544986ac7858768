// Messages between the driver and the compiler process, over a socket pair.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace softgpu::jit {

constexpr uint64_t kMaxMessageBytes = 80ull << 20;

enum class Request : uint32_t {
  describe = 1,  // a module
  compile = 2,   // one kernel
  examine = 3,   // all kernels, without compiling them
  resolve = 4,   // the names that a module uses
};
enum class Status : uint32_t {
  ok = 0,
  invalid_ptx = 1,
  not_supported = 2,
  compiler_failed = 3,
  unknown_kernel = 4,
  limit_exceeded = 5,  // of time or memory
  undefined_names = 6
};

// Little-endian fields in order. Reading past the end sets `bad` and returns zeros.
struct Writer {
  std::string bytes;
  void u64(uint64_t v) { bytes.append((const char*)&v, 8); }
  void text(const std::string& s) {
    u64(s.size());
    bytes += s;
  }
};

struct Reader {
  const std::string& bytes;
  size_t at = 0;
  bool bad = false;
  uint64_t u64() {
    if (bytes.size() - at < 8) {
      bad = true;
      return 0;
    }
    uint64_t v;
    __builtin_memcpy(&v, bytes.data() + at, 8);
    at += 8;
    return v;
  }
  std::string text() {
    uint64_t n = u64();
    if (bad || bytes.size() - at < n) {
      bad = true;
      return {};
    }
    std::string s = bytes.substr(at, n);
    at += n;
    return s;
  }
  // Read a list length that the rest of the message can hold.
  uint64_t count(uint64_t item_bytes) {
    uint64_t n = u64();
    if (bad || n > (bytes.size() - at) / item_bytes) {
      bad = true;
      return 0;
    }
    return n;
  }
};

struct Parameter {
  uint64_t offset, bytes;  // in the parameter buffer of the kernel
};
struct KernelDescription {
  std::string name;
  std::vector<Parameter> params;
  uint64_t max_threads = 1024;  // of a thread block
};
struct GlobalDescription {
  std::string name;
  uint64_t bytes = 0, align = 1;
  std::string initial;
  struct Reference {
    uint64_t at;
    std::string symbol;
    uint64_t addend;
  };
  std::vector<Reference> references;
};
struct ModuleDescription {
  std::vector<KernelDescription> kernels;
  std::vector<GlobalDescription> globals;
};
struct Compiled {
  std::string library;  // path
  uint64_t shared_bytes = 0, local_bytes = 0, constant_bytes = 0, registers = 0;
  std::vector<std::string> globals;
};

std::string encode(const ModuleDescription& m);
bool decode(const std::string& bytes, ModuleDescription& m);
std::string encode(const Compiled& c);
bool decode(const std::string& bytes, Compiled& c);

// Send or receive a whole message: u64 kind, u64 length, bytes. Block until it is complete. Return
// false if the connection is closed, the length is out of bounds or the deadline has passed: in
// milliseconds of the monotonic clock, or kNoDeadline.
constexpr int64_t kNoDeadline = INT64_MAX;
bool send_message(int fd, uint64_t kind, const std::string& body, int64_t deadline_ms);
bool receive_message(int fd, uint64_t& kind, std::string& body, int64_t deadline_ms);

}  // namespace softgpu::jit

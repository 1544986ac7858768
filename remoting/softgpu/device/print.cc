#include "softgpu/device/print.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "softgpu/device/cta.h"

namespace softgpu {

namespace {
constexpr size_t kMaxFormat = 4096;

// Addresses come from kernels: only device memory is read. An unmapped page faults the kernel.
bool readable(uint64_t at, uint64_t bytes) {
  return at >= SOFTGPU_WINDOW_BASE && at - SOFTGPU_WINDOW_BASE <= SOFTGPU_WINDOW_BYTES - bytes;
}

std::string text_at(uint64_t at, size_t most) {
  return readable(at, most) ? std::string((const char*)at, strnlen((const char*)at, most)) : "";
}

struct Arguments {
  uint64_t at;
  template <typename T>
  T take() {
    at = (at + sizeof(T) - 1) & ~(uint64_t)(sizeof(T) - 1);
    T v{};
    if (readable(at, sizeof v)) std::memcpy(&v, (const void*)at, sizeof v);
    at += sizeof v;
    return v;
  }
};

template <typename T>
void append(std::string& out, const std::string& spec, T value) {
  char buffer[512];
  int n = std::snprintf(buffer, sizeof buffer, spec.c_str(), value);
  if (n > 0) out.append(buffer, std::min<size_t>((size_t)n, sizeof buffer - 1));
}

// Append one conversion with the length modifier of this machine. Return false for a `*` width and
// for unknown conversions.
bool convert(std::string& out, const std::string& spec, char conversion, int longs, Arguments& a) {
  if (spec.find('*') != std::string::npos || spec.size() > 16) return false;
  switch (conversion) {
    case 'd':
    case 'i':
      if (longs)
        append(out, spec + "ll" + conversion, (long long)a.take<int64_t>());
      else
        append(out, spec + conversion, a.take<int32_t>());
      return true;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      if (longs)
        append(out, spec + "ll" + conversion, (unsigned long long)a.take<uint64_t>());
      else
        append(out, spec + conversion, a.take<uint32_t>());
      return true;
    case 'c': append(out, spec + "c", a.take<int32_t>()); return true;
    case 'p': append(out, spec + "p", (void*)a.take<uint64_t>()); return true;
    case 's': append(out, spec + "s", text_at(a.take<uint64_t>(), 1024).c_str()); return true;
    case 'f':
    case 'e':
    case 'g':
    case 'a':
    case 'F':
    case 'E':
    case 'G':
    case 'A': append(out, spec + conversion, a.take<double>()); return true;
    default: return false;
  }
}
}  // namespace

uint32_t print_from_kernel(uint64_t format, uint64_t arguments) {
  const std::string f = text_at(format, kMaxFormat);
  size_t length = f.size();
  Arguments a{arguments};
  std::string out;
  uint32_t taken = 0;
  for (size_t i = 0; i < length; ++i) {
    if (f[i] != '%') {
      out += f[i];
      continue;
    }
    if (f[++i] == '%') {
      out += '%';
      continue;
    }
    std::string spec = "%";
    while (i < length && std::strchr("-+ #0123456789.*", f[i])) spec += f[i++];
    int longs = 0;
    while (i < length && std::strchr("lhzjt", f[i])) longs += f[i++] != 'h';
    if (i >= length || !convert(out, spec, f[i], longs, a)) return 0;
    ++taken;
  }
  fwrite(out.data(), 1, out.size(), stdout);
  fflush(stdout);
  return taken;
}

void print_assertion(uint64_t message, uint64_t file, uint32_t line, uint64_t function,
                     const uint32_t block[3], const uint32_t thread[3]) {
  std::fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
               text_at(file, 1024).c_str(), line, text_at(function, 1024).c_str(), block[0],
               block[1], block[2], thread[0], thread[1], thread[2], text_at(message, 1024).c_str());
}

}  // namespace softgpu

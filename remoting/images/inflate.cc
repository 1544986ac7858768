#include "images/inflate.h"

#include <dlfcn.h>

#include <climits>

namespace busbar::images {

namespace {
// A block of zstd has at least 4 bytes and at most 128 KiB of content.
constexpr uint64_t kMaxRatio = 32 << 10;

// The libraries are part of every Debian. They are loaded when an image needs one.
template <typename F>
F symbol(const char* library, const char* name) {
  void* h = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return h ? (F)dlsym(h, name) : nullptr;
}

bool inflate_zstd(std::string_view data, std::string& out) {
  static auto f =
      symbol<size_t (*)(void*, size_t, const void*, size_t)>("libzstd.so.1", "ZSTD_decompress");
  return f && f(out.data(), out.size(), data.data(), data.size()) == out.size();
}

bool inflate_lz4(std::string_view data, std::string& out) {
  static auto f =
      symbol<int (*)(const char*, char*, int, int)>("liblz4.so.1", "LZ4_decompress_safe");
  if (!f || data.size() > INT_MAX || out.size() > INT_MAX) return false;
  return f(data.data(), out.data(), (int)data.size(), (int)out.size()) == (int)out.size();
}
}  // namespace

bool inflate(Compression how, std::string_view data, uint64_t plain_bytes, std::string& out) {
  if (how == Compression::none) {
    out = data;
    return true;
  }
  if (plain_bytes / kMaxRatio > data.size()) return false;
  out.assign(plain_bytes, '\0');
  return how == Compression::zstd ? inflate_zstd(data, out) : inflate_lz4(data, out);
}

}  // namespace busbar::images

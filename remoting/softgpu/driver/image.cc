// Finds PTX in images: text, a fatbin (plain, LZ4 or zstd) or its wrapper.
#include "softgpu/driver/image.h"

#include <dlfcn.h>

#include <cstring>

namespace softgpu {

namespace {
constexpr uint32_t kWrapperMagic = 0x466243B1, kFatbinMagic = 0xBA55ED50;
constexpr uint64_t kMaxPtxBytes = 64ull << 20;
constexpr uint64_t kLz4Flag = 0x2000, kZstdFlag = 0x8000;

template <typename T>
T at(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Decompression libraries: part of every Debian, loaded when an image needs one.
template <typename F>
F symbol(const char* library, const char* name) {
  void* h = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return h ? (F)dlsym(h, name) : nullptr;
}

std::string inflate(const uint8_t* data, uint64_t bytes, uint64_t plain_bytes, uint64_t flags) {
  if (plain_bytes > kMaxPtxBytes) return "";
  std::string out(plain_bytes, '\0');
  if (flags & kZstdFlag) {
    static auto f =
        symbol<size_t (*)(void*, size_t, const void*, size_t)>("libzstd.so.1", "ZSTD_decompress");
    return f && f(out.data(), out.size(), data, bytes) == plain_bytes ? out : "";
  }
  static auto f =
      symbol<int (*)(const char*, char*, int, int)>("liblz4.so.1", "LZ4_decompress_safe");
  return f && f((const char*)data, out.data(), (int)bytes, (int)plain_bytes) == (int)plain_bytes
             ? out
             : "";
}

// Entries follow each other. Return the PTX of the highest architecture.
std::string ptx_of_fatbin(const uint8_t* p, bool& binary) {
  uint16_t header = at<uint16_t>(p + 6);
  uint64_t total = at<uint64_t>(p + 8);
  std::string best;
  uint32_t best_arch = 0;
  const uint8_t* entry = p + header;
  const uint8_t* end = entry + total;
  while (entry + 64 <= end) {
    uint16_t kind = at<uint16_t>(entry);
    uint32_t entry_header = at<uint32_t>(entry + 4);
    uint64_t payload = at<uint64_t>(entry + 8), flags = at<uint64_t>(entry + 40),
             plain = at<uint64_t>(entry + 56);
    uint32_t compressed = at<uint32_t>(entry + 16), arch = at<uint32_t>(entry + 28);
    if (entry_header < 64 || entry_header > (uint64_t)(end - entry) ||
        payload > (uint64_t)(end - entry) - entry_header)
      break;
    const uint8_t* data = entry + entry_header;
    binary |= kind == 2;
    if (kind == 1 && (best.empty() || arch > best_arch)) {
      std::string text =
          flags & (kLz4Flag | kZstdFlag)
              ? (compressed <= payload ? inflate(data, compressed, plain, flags) : "")
              : std::string((const char*)data, payload);
      if (!text.empty()) {
        best = text.c_str();
        best_arch = arch;
      }
    }
    entry = data + payload;
  }
  return best;
}
}  // namespace

std::string ptx_of_image(const void* image, bool& binary) {
  auto* p = (const uint8_t*)image;
  if (at<uint32_t>(p) == kWrapperMagic) p = at<const uint8_t*>(p + 8);
  if (at<uint32_t>(p) == kFatbinMagic) return ptx_of_fatbin(p, binary);
  if (!std::memcmp(p,
                   "\x7f"
                   "ELF",
                   4)) {
    binary = true;
    return "";
  }
  size_t n = strnlen((const char*)p, kMaxPtxBytes);
  std::string text((const char*)p, n);
  return text.find(".version") != std::string::npos ? text : "";
}

}  // namespace softgpu

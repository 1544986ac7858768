// How long an image is, and which parts of it the node can use at all. No call of the API says
// either.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "client/session.h"

namespace busbar::client {

namespace {
constexpr uint32_t kWrapperMagic = 0x466243B1, kFatbinMagic = 0xBA55ED50;
constexpr size_t kFatbinHeader = 16;

template <typename T>
T at(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// The entries that this device can run: machine code of its generation, and all PTX.
std::string usable_entries(const uint8_t* p, int major, int minor) {
  const uint8_t* entry = p + at<uint16_t>(p + 6);
  const uint8_t* end = entry + at<uint64_t>(p + 8);
  std::string out((const char*)p, kFatbinHeader);
  while (entry + 64 <= end) {
    uint16_t kind = at<uint16_t>(entry);
    uint64_t bytes = at<uint32_t>(entry + 4) + at<uint64_t>(entry + 8);
    int arch = (int)at<uint32_t>(entry + 28);
    if (bytes < 64 || bytes > (uint64_t)(end - entry)) break;
    bool runs = kind == 1 ? arch <= major * 10 + minor
                          : kind == 2 && arch / 10 == major && arch % 10 <= minor;
    if (runs) out.append((const char*)entry, bytes);
    entry += bytes;
  }
  if (out.size() == kFatbinHeader)
    out.assign((const char*)p, (size_t)(end - p));  // nothing fits: let the node say so
  uint16_t header = kFatbinHeader;
  uint64_t payload = out.size() - kFatbinHeader;
  std::memcpy(out.data() + 6, &header, 2);
  std::memcpy(out.data() + 8, &payload, 8);
  return out;
}

uint64_t elf_bytes(const uint8_t* p) {
  uint64_t program = at<uint64_t>(p + 32), sections = at<uint64_t>(p + 40), end = 64;
  uint16_t program_size = at<uint16_t>(p + 54), program_count = at<uint16_t>(p + 56),
           section_size = at<uint16_t>(p + 58), section_count = at<uint16_t>(p + 60);
  end = std::max({end, program + (uint64_t)program_size * program_count,
                  sections + (uint64_t)section_size * section_count});
  for (uint16_t i = 0; i < section_count; ++i) {
    const uint8_t* s = p + sections + (uint64_t)i * section_size;
    if (at<uint32_t>(s + 4) != 8)
      end = std::max(end, at<uint64_t>(s + 24) + at<uint64_t>(s + 32));  // SHT_NOBITS has no bytes
  }
  return end;
}
}  // namespace

bool read_file(const char* path, std::string& out) {
  FILE* f = std::fopen(path, "rb");
  if (!f) return false;
  char buffer[65536];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, f)) > 0) out.append(buffer, n);
  std::fclose(f);
  return true;
}

std::string image_bytes(const void* image, int major, int minor) {
  auto* p = (const uint8_t*)image;
  if (at<uint32_t>(p) == kWrapperMagic) p = at<const uint8_t*>(p + 8);
  if (at<uint32_t>(p) == kFatbinMagic) return usable_entries(p, major, minor);
  if (!std::memcmp(p,
                   "\x7f"
                   "ELF",
                   4))
    return std::string((const char*)p, elf_bytes(p));
  return std::string((const char*)p) + '\0';  // PTX text, found by elimination
}

}  // namespace busbar::client

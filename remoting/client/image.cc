#include "client/image.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace busbar::client {

namespace {
constexpr uint32_t kWrapperMagic = 0x466243B1, kFatbinMagic = 0xBA55ED50;
constexpr size_t kFatbinHeader = 16, kMinEntryBytes = 64;
constexpr uint16_t kPtxEntry = 1, kElfEntry = 2;
constexpr uint32_t kSectionWithoutBytes = 8;  // SHT_NOBITS

template <typename T>
T read_at(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Return a fat binary with the entries that the device can run: machine code of its generation and
// PTX up to its capability. All entries if none fits, so that the node reports the error.
std::string usable_entries(const uint8_t* p, int major, int minor) {
  const uint8_t* entry = p + read_at<uint16_t>(p + 6);
  const uint8_t* end = entry + read_at<uint64_t>(p + 8);
  std::string out((const char*)p, kFatbinHeader);
  while (entry + kMinEntryBytes <= end) {
    uint16_t kind = read_at<uint16_t>(entry);
    uint64_t bytes = read_at<uint32_t>(entry + 4) + read_at<uint64_t>(entry + 8);
    int arch = (int)read_at<uint32_t>(entry + 28);
    if (bytes < kMinEntryBytes || bytes > (uint64_t)(end - entry)) break;
    bool runs = kind == kPtxEntry ? arch <= major * 10 + minor
                                  : kind == kElfEntry && arch / 10 == major && arch % 10 <= minor;
    if (runs) out.append((const char*)entry, bytes);
    entry += bytes;
  }
  if (out.size() == kFatbinHeader) out.assign((const char*)p, (size_t)(end - p));
  uint16_t header = kFatbinHeader;
  uint64_t payload = out.size() - kFatbinHeader;
  std::memcpy(out.data() + 6, &header, 2);
  std::memcpy(out.data() + 8, &payload, 8);
  return out;
}

// Return the end of the last header or section of an ELF file.
uint64_t elf_bytes(const uint8_t* p) {
  uint64_t program = read_at<uint64_t>(p + 32), sections = read_at<uint64_t>(p + 40), end = 64;
  uint16_t program_size = read_at<uint16_t>(p + 54), program_count = read_at<uint16_t>(p + 56),
           section_size = read_at<uint16_t>(p + 58), section_count = read_at<uint16_t>(p + 60);
  end = std::max({end, program + (uint64_t)program_size * program_count,
                  sections + (uint64_t)section_size * section_count});
  for (uint16_t i = 0; i < section_count; ++i) {
    const uint8_t* s = p + sections + (uint64_t)i * section_size;
    if (read_at<uint32_t>(s + 4) != kSectionWithoutBytes)
      end = std::max(end, read_at<uint64_t>(s + 24) + read_at<uint64_t>(s + 32));
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
  if (read_at<uint32_t>(p) == kWrapperMagic) p = read_at<const uint8_t*>(p + 8);
  if (read_at<uint32_t>(p) == kFatbinMagic) return usable_entries(p, major, minor);
  if (!std::memcmp(p,
                   "\x7f"
                   "ELF",
                   4))
    return std::string((const char*)p, elf_bytes(p));
  return std::string((const char*)p) + '\0';  // PTX
}

}  // namespace busbar::client

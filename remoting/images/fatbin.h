// Fat binaries: a header of 16 bytes, then entries, each with a header of its own.
//
// Thread safety: any thread. The views point into the image, which must outlive them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "images/inflate.h"

namespace busbar::images {

constexpr uint32_t kFatbinMagic = 0xBA55ED50;
constexpr uint64_t kFatbinHeaderBytes = 16;

enum class EntryKind : uint16_t { ptx = 1, machine_code = 2, intermediate = 8 };

struct FatbinEntry {
  EntryKind kind;
  uint32_t arch;  // compute capability, as 90
  Compression compression;
  std::string_view header, payload;
  std::string_view stored;  // the payload without padding
  uint64_t plain_bytes;     // of a compressed payload
};

bool is_fatbin(std::string_view image);
// Append the entries. False if the image is malformed: an entry, or a text that its header names,
// lies outside of the image.
bool read_fatbin(std::string_view image, std::vector<FatbinEntry>& out);
// Return the header of a fat binary with `payload_bytes` of entries.
std::string fatbin_header(uint64_t payload_bytes);
// Return an entry whose payload is `plain`, which is not compressed.
std::string plain_entry(const FatbinEntry& entry, std::string_view plain);

}  // namespace busbar::images

#include "images/fatbin.h"

#include <cstring>

#include "checked_size.h"

namespace busbar::images {

namespace {
constexpr uint64_t kLz4Flag = 0x2000, kZstdFlag = 0x8000;
constexpr uint64_t kAlignment = 8;

// The fields of an entry that are known. All offsets count from the entry's begin.
struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes;
  uint32_t options_at;  // 0: none; else the offset of TextField
  uint16_t minor, major;
  uint32_t arch;
  uint32_t name_at, name_bytes;
  uint64_t flags;
  uint64_t reserved;
  uint64_t plain_bytes;
};
static_assert(sizeof(EntryHeader) == 64);

struct TextField {
  uint32_t at, bytes;
};

struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t payload_bytes;
};
static_assert(sizeof(FatbinHeader) == kFatbinHeaderBytes);

template <typename T>
bool read(std::string_view from, T& out) {
  if (from.size() < sizeof out) return false;
  from.copy((char*)&out, sizeof out);
  return true;
}

// Returns true if the texts that the header names lie inside it.
bool texts_fit(const EntryHeader& h, std::string_view header) {
  if (!(CheckedSize(h.name_at) + h.name_bytes).within(header.size())) return false;
  if (!h.options_at) return true;
  TextField options;
  return h.options_at <= header.size() && read(header.substr(h.options_at), options) &&
         (CheckedSize(options.at) + options.bytes).within(header.size());
}

Compression compression_of(const EntryHeader& h) {
  if (h.flags & kZstdFlag) return Compression::zstd;
  return h.flags & kLz4Flag ? Compression::lz4 : Compression::none;
}

// Read the first entry of `rest` and remove it.
bool take_entry(std::string_view& rest, FatbinEntry& out) {
  EntryHeader h;
  if (!read(rest, h) || h.header_bytes < sizeof h ||
      !(CheckedSize(h.header_bytes) + h.payload_bytes).within(rest.size()))
    return false;
  out.kind = (EntryKind)h.kind;
  out.arch = h.arch;
  out.compression = compression_of(h);
  out.header = rest.substr(0, h.header_bytes);
  out.payload = rest.substr(h.header_bytes, h.payload_bytes);
  out.stored = out.payload;
  out.plain_bytes = h.plain_bytes;
  if (out.compression != Compression::none) {
    if (h.compressed_bytes > h.payload_bytes) return false;
    out.stored = out.payload.substr(0, h.compressed_bytes);
  }
  rest.remove_prefix(h.header_bytes + h.payload_bytes);
  return texts_fit(h, out.header);
}
}  // namespace

bool is_fatbin(std::string_view image) {
  uint32_t magic;
  return read(image, magic) && magic == kFatbinMagic;
}

bool read_fatbin(std::string_view image, std::vector<FatbinEntry>& out) {
  FatbinHeader h;
  if (!read(image, h) || h.magic != kFatbinMagic || h.header_bytes < sizeof h ||
      !(CheckedSize(h.header_bytes) + h.payload_bytes).within(image.size()))
    return false;
  std::string_view rest = image.substr(h.header_bytes, h.payload_bytes);
  while (!rest.empty()) {
    FatbinEntry entry;
    if (!take_entry(rest, entry)) return false;
    out.push_back(entry);
  }
  return true;
}

std::string fatbin_header(uint64_t payload_bytes) {
  FatbinHeader h{kFatbinMagic, 1, kFatbinHeaderBytes, payload_bytes};
  return std::string((const char*)&h, sizeof h);
}

std::string plain_entry(const FatbinEntry& entry, std::string_view plain) {
  std::string out(entry.header), payload(plain);
  payload.resize((payload.size() + kAlignment - 1) & ~(kAlignment - 1));
  EntryHeader h;
  std::memcpy(&h, out.data(), sizeof h);
  h.payload_bytes = payload.size();
  h.compressed_bytes = 0;
  h.plain_bytes = 0;
  h.flags &= ~(kLz4Flag | kZstdFlag);
  std::memcpy(out.data(), &h, sizeof h);
  return out + payload;
}

}  // namespace busbar::images

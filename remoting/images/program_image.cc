#include "images/program_image.h"

#include <cstring>

#include "images/elf.h"
#include "images/fatbin.h"

namespace busbar::images {

namespace {
constexpr size_t kWrapperPointerAt = 8, kHeaderBytesAt = 6, kPayloadBytesAt = 8;
constexpr size_t kMagicBytes = 4;

template <typename T>
T read_at(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Compares byte by byte: a text may be shorter than the magic.
bool starts_with(const char* p, uint32_t magic) {
  return !std::strncmp(p, (const char*)&magic, kMagicBytes);
}
}  // namespace

bool is_wrapper(std::string_view image) {
  return image.starts_with(std::string_view((const char*)&kWrapperMagic, kMagicBytes));
}

std::string_view image_at(const void* image) {
  auto* p = (const char*)image;
  if (starts_with(p, kWrapperMagic)) p = read_at<const char*>(p + kWrapperPointerAt);
  if (starts_with(p, kFatbinMagic))
    return {p, read_at<uint16_t>(p + kHeaderBytesAt) + read_at<uint64_t>(p + kPayloadBytesAt)};
  if (!std::strncmp(p,
                    "\x7f"
                    "ELF",
                    kMagicBytes))
    return {p, elf_extent(p)};
  return p;
}

}  // namespace busbar::images

#include "client/image.h"

#include "images/elf.h"
#include "images/fatbin.h"
#include "images/program_image.h"

namespace busbar::client {

namespace {
using images::EntryKind;

bool runs(const images::FatbinEntry& e, uint32_t major, uint32_t minor) {
  // NOLINTNEXTLINE(custom-unchecked-product): versions of architectures
  if (e.kind == EntryKind::ptx) return e.arch <= major * 10 + minor;
  return e.kind == EntryKind::machine_code && e.arch / 10 == major && e.arch % 10 <= minor;
}

// Return a fat binary with the entries that the device can run: machine code of its generation and
// PTX up to its capability. The whole image if none fits, so that the node reports the error.
std::string usable_entries(std::string_view image, uint32_t major, uint32_t minor) {
  std::vector<images::FatbinEntry> entries;
  std::string out;
  if (images::read_fatbin(image, entries))
    for (auto& e : entries)
      if (runs(e, major, minor)) out.append(e.header).append(e.payload);
  return out.empty() ? std::string(image) : images::fatbin_header(out.size()) + out;
}
}  // namespace

std::string image_bytes(const void* image, int major, int minor) {
  std::string_view bytes = images::image_at(image);
  if (images::is_fatbin(bytes)) return usable_entries(bytes, (uint32_t)major, (uint32_t)minor);
  std::string out(bytes);
  if (!images::is_elf(bytes)) out += '\0';  // PTX
  return out;
}

}  // namespace busbar::client

#include "softgpu/driver/image.h"

#include "images/elf.h"
#include "images/fatbin.h"

namespace softgpu {

namespace {
using busbar::images::EntryKind;
using busbar::images::FatbinEntry;

constexpr uint64_t kMaxPtxBytes = 64ull << 20;

// Return the text of an entry; an empty string if it cannot be read.
std::string text_of(const FatbinEntry& entry) {
  std::string text;
  if (entry.plain_bytes > kMaxPtxBytes ||
      !busbar::images::inflate(entry.compression, entry.stored, entry.plain_bytes, text))
    return "";
  return text.substr(0, text.find('\0'));
}

// Return the PTX of the highest architecture.
std::string ptx_of_fatbin(std::string_view image, bool& binary) {
  std::vector<FatbinEntry> entries;
  if (!busbar::images::read_fatbin(image, entries)) return "";
  std::string best;
  uint32_t best_arch = 0;
  for (auto& entry : entries) {
    binary |= entry.kind == EntryKind::machine_code;
    if (entry.kind != EntryKind::ptx || (!best.empty() && entry.arch <= best_arch)) continue;
    if (std::string text = text_of(entry); !text.empty()) {
      best = std::move(text);
      best_arch = entry.arch;
    }
  }
  return best;
}
}  // namespace

std::string ptx_of_image(std::string_view image, bool& binary) {
  if (busbar::images::is_fatbin(image)) return ptx_of_fatbin(image, binary);
  if (busbar::images::is_elf(image)) {
    binary = true;
    return "";
  }
  std::string text(image.substr(0, std::min<size_t>(image.find('\0'), kMaxPtxBytes)));
  return text.find(".version") != std::string::npos ? text : "";
}

}  // namespace softgpu

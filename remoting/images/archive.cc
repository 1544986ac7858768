#include "images/archive.h"

#include <ar.h>

#include <charconv>
#include <cstddef>
#include <cstdint>

#include "images/elf.h"

namespace busbar::images {

namespace {
constexpr std::string_view kMagic(ARMAG, SARMAG);

// Read a decimal number that spaces follow.
bool read_decimal(std::string_view text, uint64_t& out) {
  text = text.substr(0, text.find(' '));
  auto [end, error] = std::from_chars(text.begin(), text.end(), out);
  return error == std::errc() && end == text.end();
}

// Remove the first member of `rest`.
bool take_member(std::string_view& rest, std::string_view& content) {
  constexpr size_t kSizeAt = offsetof(ar_hdr, ar_size), kSizeBytes = sizeof ar_hdr::ar_size;
  uint64_t bytes = 0;
  if (rest.size() < sizeof(ar_hdr) || rest.substr(offsetof(ar_hdr, ar_fmag), 2) != ARFMAG ||
      !read_decimal(rest.substr(kSizeAt, kSizeBytes), bytes))
    return false;
  rest.remove_prefix(sizeof(ar_hdr));
  if (bytes > rest.size()) return false;
  content = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  if (bytes % 2 && !rest.empty()) rest.remove_prefix(1);
  return true;
}
}  // namespace

bool is_archive(std::string_view file) {
  return file.substr(0, kMagic.size()) == kMagic;
}

bool valid_archive(std::string_view file) {
  if (!is_archive(file)) return false;
  std::string_view rest = file.substr(kMagic.size()), member;
  while (!rest.empty())
    if (!take_member(rest, member) || (is_elf(member) && !valid_elf(member, Machine::any)))
      return false;
  return true;
}

}  // namespace busbar::images

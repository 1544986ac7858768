#include "server/code_image.h"

#include "checked_size.h"
#include "images/archive.h"
#include "images/elf.h"
#include "images/fatbin.h"
#include "images/program_image.h"
#include "wire/format.h"

namespace busbar::server {

namespace {
using images::EntryKind;
using images::Machine;

// Each entry is decompressed, so their number is limited as well as their bytes.
constexpr size_t kMaxEntries = 4096;

CUresult take_if(bool valid, std::string_view image, std::string& out) {
  if (valid) out = image;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

bool is_binary(std::string_view image) {
  return images::is_wrapper(image) || images::is_fatbin(image) || images::is_elf(image) ||
         images::is_archive(image);
}

// Text ends at its first zero.
CUresult pack_text(std::string_view image, std::string& out) {
  return take_if(!is_binary(image), image.substr(0, image.find('\0')), out);
}

// Append an entry with code; others are left out.
bool pack_entry(const images::FatbinEntry& entry, std::string& out) {
  std::string plain;
  switch (entry.kind) {
    case EntryKind::ptx:
    case EntryKind::machine_code:
      if (!images::inflate(entry.compression, entry.stored, entry.plain_bytes, plain)) return false;
      if (entry.kind == EntryKind::machine_code && !images::valid_elf(plain, Machine::gpu))
        return false;
      if (entry.kind == EntryKind::ptx && is_binary(plain)) return false;
      out += images::plain_entry(entry, plain);
      return true;
    case EntryKind::intermediate: out.append(entry.header).append(entry.payload); return true;
  }
  return true;
}

bool sizes_are_bounded(const std::vector<images::FatbinEntry>& entries) {
  CheckedSize total = 0;
  for (auto& e : entries) total = total + e.header.size() + e.payload.size() + e.plain_bytes;
  return entries.size() <= kMaxEntries && total.within(wire::kMaxImageBytes);
}

// Without `for_linker` intermediate code is left out: the memory that it needs is unknown.
CUresult pack_fatbin(std::string_view image, bool for_linker, std::string& out) {
  std::vector<images::FatbinEntry> entries;
  if (!images::read_fatbin(image, entries) || !sizes_are_bounded(entries))
    return CUDA_ERROR_INVALID_IMAGE;
  std::string packed;
  for (auto& e : entries)
    if ((for_linker || e.kind != EntryKind::intermediate) && !pack_entry(e, packed))
      return CUDA_ERROR_INVALID_IMAGE;
  if (packed.empty()) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  out = images::fatbin_header(packed.size()) + packed;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult pack_module_image(std::string_view image, std::string& out) {
  if (images::is_fatbin(image)) return pack_fatbin(image, false, out);
  if (images::is_elf(image)) return take_if(images::valid_elf(image, Machine::gpu), image, out);
  return pack_text(image, out);
}

CUresult pack_link_input(CUjitInputType type, std::string_view image, std::string& out) {
  switch (type) {
    case CU_JIT_INPUT_CUBIN: return take_if(images::valid_elf(image, Machine::gpu), image, out);
    case CU_JIT_INPUT_OBJECT: return take_if(images::valid_elf(image, Machine::any), image, out);
    case CU_JIT_INPUT_LIBRARY: return take_if(images::valid_archive(image), image, out);
    case CU_JIT_INPUT_FATBINARY: return pack_fatbin(image, true, out);
    case CU_JIT_INPUT_NVVM: return take_if(!is_binary(image), image, out);
    case CU_JIT_INPUT_PTX: {
      CUresult r = pack_text(image, out);
      out += '\0';
      return r;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace busbar::server

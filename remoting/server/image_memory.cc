#include "server/image_memory.h"

#include <algorithm>
#include <vector>

#include "images/elf.h"
#include "images/fatbin.h"
#include "images/ptx_variables.h"

namespace busbar::server {

namespace {
using images::EntryKind;

CUresult measure_text(std::string_view text, uint64_t& bytes, const char*& error) {
  return images::measure_ptx_variables(text.substr(0, text.find('\0')), bytes, error)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_PTX;
}

CUresult measure_entry(const images::FatbinEntry& entry, uint64_t& bytes, const char*& error) {
  if (entry.kind == EntryKind::ptx) return measure_text(entry.stored, bytes, error);
  bytes = entry.kind == EntryKind::machine_code ? images::elf_memory_bytes(entry.stored) : 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult measure_image(std::string_view packed, bool software_gpu, uint64_t& bytes,
                       const char*& error) {
  bytes = 0;
  if (images::is_elf(packed)) {
    if (!software_gpu) bytes = images::elf_memory_bytes(packed);  // it refuses machine code
    return CUDA_SUCCESS;
  }
  if (!images::is_fatbin(packed)) return measure_text(packed, bytes, error);
  std::vector<images::FatbinEntry> entries;
  if (!images::read_fatbin(packed, entries)) return CUDA_ERROR_INVALID_IMAGE;
  if (software_gpu) std::erase_if(entries, [](auto& e) { return e.kind != EntryKind::ptx; });
  for (auto& entry : entries) {
    uint64_t needed = 0;
    if (CUresult r = measure_entry(entry, needed, error)) return r;
    bytes = std::max(bytes, needed);
  }
  return CUDA_SUCCESS;
}

}  // namespace busbar::server

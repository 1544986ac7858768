#include "server/image_memory.h"

#include <algorithm>
#include <vector>

#include "checked_size.h"
#include "images/elf.h"
#include "images/fatbin.h"
#include "images/ptx_variables.h"

namespace busbar::server {

namespace {
using images::EntryKind;

// Of machine code for each byte of PTX: an estimate, which unrolled loops can exceed.
constexpr uint64_t kCodeBytesPerByte = 2;

CUresult measure_text(std::string_view text, bool software_gpu, uint64_t& bytes,
                      const char*& error) {
  text = text.substr(0, text.find('\0'));
  if (!images::measure_ptx_variables(text, bytes, error)) return CUDA_ERROR_INVALID_PTX;
  if (software_gpu) return CUDA_SUCCESS;  // its code is in host memory
  bytes = (CheckedSize(text.size()) * kCodeBytesPerByte + bytes).value();
  return CUDA_SUCCESS;
}

CUresult measure_entry(const images::FatbinEntry& entry, bool software_gpu, uint64_t& bytes,
                       const char*& error) {
  if (entry.kind == EntryKind::ptx) return measure_text(entry.stored, software_gpu, bytes, error);
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
  if (!images::is_fatbin(packed)) return measure_text(packed, software_gpu, bytes, error);
  std::vector<images::FatbinEntry> entries;
  if (!images::read_fatbin(packed, entries)) return CUDA_ERROR_INVALID_IMAGE;
  if (software_gpu) std::erase_if(entries, [](auto& e) { return e.kind != EntryKind::ptx; });
  for (auto& entry : entries) {
    uint64_t needed = 0;
    if (CUresult r = measure_entry(entry, software_gpu, needed, error)) return r;
    bytes = std::max(bytes, needed);
  }
  return CUDA_SUCCESS;
}

}  // namespace busbar::server

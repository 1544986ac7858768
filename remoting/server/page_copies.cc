#include "server/page_copies.h"

#include <algorithm>
#include <cstring>

#include "checked_size.h"

namespace busbar::server {

namespace {
bool is_zero(const uint8_t* p, uint64_t bytes) {
  return !*p && !std::memcmp(p, p + 1, bytes - 1);
}

// Copies the pages that are not zero. True if there are any.
bool take_pages(const uint8_t* from, uint64_t bytes, uint8_t* to) {
  bool any = false;
  for (uint64_t at = 0; at < bytes; at += PageCopies::kPageBytes) {
    uint64_t size = std::min(PageCopies::kPageBytes, bytes - at);
    if (is_zero(from + at, size)) continue;
#ifdef BUSBAR_PLANTED_LOST_PAGE  // a test shows that it would notice
    if (!any) {
      any = true;
      continue;
    }
#endif
    std::memcpy(to + at, from + at, size);
    any = true;
  }
  return any;
}

struct PageChunk {
  uint64_t at = 0, bytes = 0;
};

// The chunk `i` of so many bytes, which has a first byte.
PageChunk chunk_of(uint64_t i, uint64_t bytes) {
  uint64_t at = (CheckedSize(i) * PageCopies::kChunkBytes).value();
  return {at, std::min(PageCopies::kChunkBytes, bytes - at)};
}

CUdeviceptr address_in(CUdeviceptr memory, const PageChunk& c) {
  return (CheckedSize(memory) + c.at).value();
}
}  // namespace

PageCopies::PageCopies(Driver& cu) : cu_(cu) {
  for (auto& slot : slots_)
    if (!status_) status_ = open(slot);
}

PageCopies::~PageCopies() {
  for (auto& slot : slots_) {
    if (slot.stream) cu_.cuStreamDestroy(slot.stream);
    if (slot.buffer) cu_.cuMemFreeHost(slot.buffer);
  }
}

CUresult PageCopies::open(Slot& slot) {
  void* buffer = nullptr;
  if (CUresult r = cu_.cuMemHostAlloc(&buffer, kChunkBytes, 0)) return r;
  slot.buffer = (uint8_t*)buffer;
  return cu_.cuStreamCreateWithPriority(&slot.stream, CU_STREAM_NON_BLOCKING, 0);
}

CUresult PageCopies::finish() {
  CUresult first = CUDA_SUCCESS;
  for (auto& slot : slots_)
    if (CUresult r = cu_.cuStreamSynchronize(slot.stream); !first) first = r;
  return first;
}

CUresult PageCopies::save(CUdeviceptr from, uint64_t bytes, uint8_t* image,
                          std::vector<bool>& filled) {
  uint64_t chunks = CheckedSize(bytes).rounded_up(kChunkBytes).value() / kChunkBytes;
  filled.assign(chunks, false);
  CUresult r = CUDA_SUCCESS;
  for (uint64_t i = 0; !r && i <= chunks; ++i) {
    auto& next = slots_[i % 2];
    if (i < chunks) {
      PageChunk c = chunk_of(i, bytes);
      r = cu_.cuMemcpyDtoHAsync(next.buffer, address_in(from, c), c.bytes, next.stream);
    }
    if (r || i == 0) continue;
    auto& done = slots_[(i - 1) % 2];
    PageChunk c = chunk_of(i - 1, bytes);
    r = cu_.cuStreamSynchronize(done.stream);
    if (!r) filled[i - 1] = take_pages(done.buffer, c.bytes, image + c.at);
  }
  CUresult end = finish();
  return r ? r : end;
}

CUresult PageCopies::restore(CUdeviceptr to, uint64_t bytes, const uint8_t* image,
                             const std::vector<bool>& filled) {
  CUresult r = CUDA_SUCCESS;
  uint64_t copied = 0;
  for (uint64_t i = 0; !r && i < filled.size(); ++i) {
    if (!filled[i]) continue;
    auto& slot = slots_[copied++ % 2];
    if ((r = cu_.cuStreamSynchronize(slot.stream))) break;
    PageChunk c = chunk_of(i, bytes);
    std::memcpy(slot.buffer, image + c.at, c.bytes);
    r = cu_.cuMemcpyHtoDAsync(address_in(to, c), slot.buffer, c.bytes, slot.stream);
  }
  CUresult end = finish();
  return r ? r : end;
}

}  // namespace busbar::server

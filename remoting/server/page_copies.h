// Copies between device memory and an image in host memory, through two pinned buffers: while the
// GPU copies one, this thread copies the other.
//
// Thread safety: one thread, with a context of the device current until the destructor has run. The
// functions block until the copies are done.
#pragma once
#include <cuda.h>

#include <array>
#include <cstdint>
#include <vector>

#include "server/driver.h"

namespace busbar::server {

class PageCopies {
 public:
  static constexpr uint64_t kChunkBytes = 4 << 20;
  static constexpr uint64_t kPageBytes = 64 << 10;

  explicit PageCopies(Driver& cu);
  ~PageCopies();
  PageCopies(const PageCopies&) = delete;
  CUresult status() const { return status_; }

  // Copies device memory to the image, which is zero. Pages of zeros are not written to it, so they
  // take no host memory. Returns which chunks have other pages.
  CUresult save(CUdeviceptr from, uint64_t bytes, uint8_t* image, std::vector<bool>& filled);
  // Copies these chunks to device memory, which is zero.
  CUresult restore(CUdeviceptr to, uint64_t bytes, const uint8_t* image,
                   const std::vector<bool>& filled);

 private:
  struct Slot {
    uint8_t* buffer = nullptr;  // pinned
    CUstream stream = nullptr;
  };
  CUresult open(Slot& slot);
  CUresult finish();
  Driver& cu_;
  std::array<Slot, 2> slots_;
  CUresult status_ = CUDA_SUCCESS;
};

}  // namespace busbar::server

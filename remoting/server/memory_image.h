// The device memory of a suspended session, in host memory: leases of the arena and physical memory
// of the program. Addresses stay reserved. Memory at addresses of the driver's choice stays on the
// GPU: allocations outside of the arena, arrays, variables of modules. ADR 84.
//
// Thread safety: thread `memory`, which owns these maps of the session.
#pragma once
#include <cuda.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "server/page_copies.h"
#include "wire/format.h"

namespace busbar::server {

struct Session;

class MemoryImage {
 public:
  explicit MemoryImage(Session& s) : s_(s) {}
  ~MemoryImage() { discard(); }
  MemoryImage(const MemoryImage&) = delete;

  // Copies the memory of the session, at most `most` bytes. Returns why that is not possible; then
  // nothing has changed.
  std::string save(uint64_t most);
  // Gives what is saved back to the driver, and its charge to the launcher. After a failure the
  // session cannot go on.
  CUresult release();
  // Bytes of each partition that restore() needs. They must be charged before.
  std::array<uint64_t, wire::kMaxDevices> needed_bytes() const;
  // Allocates the memory again at the same addresses, and discards the image. After a failure the
  // session cannot go on.
  CUresult restore();

 private:
  // A lease, or physical memory.
  struct Part {
    bool is_lease = false;
    uint64_t key = 0;  // address of the lease, or the client's handle
    uint64_t bytes = 0;
    uint32_t device = 0;
    uint64_t at = 0;           // in the image
    std::vector<bool> filled;  // its chunks
  };
  bool list_parts();
  bool shares_memory();
  bool allocate();
  void discard();
  CUresult save(Part& part);
  CUresult release(const Part& part);
  CUresult restore(const Part& part);
  CUresult restore_lease(const Part& part);
  CUresult restore_physical(const Part& part);
  CUresult copy_back(const Part& part, CUdeviceptr to);
  template <typename F>
  CUresult map_all(const Part& part, F each);

  Session& s_;
  std::vector<Part> parts_;
  uint8_t* image_ = nullptr;
  uint64_t image_bytes_ = 0;
};

}  // namespace busbar::server

// All address ranges that the library has given to the program, with their kind. Pointer queries
// read it without a round trip.
//
// Thread safety: all members of AddressMap may be called from any thread. One reader-writer lock,
// never held while another lock is taken.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace busbar::client {

struct Context;

struct Region {
  enum Kind {
    none,
    device,      // cuMemAlloc and its variants
    global,      // a variable of a module
    mapped,      // cuMemMap, or memory of another process
    managed,     // cuMemAllocManaged
    pinned,      // cuMemHostAlloc
    registered,  // cuMemHostRegister
  } kind = none;
  uint64_t base = 0, bytes = 0;
  uint64_t id = 0;  // CU_POINTER_ATTRIBUTE_BUFFER_ID
  Context* context = nullptr;
  unsigned flags = 0;        // of the function that created it
  bool synchronous = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
  bool on_device() const {
    return kind == device || kind == global || kind == mapped || kind == managed;
  }
  bool on_host() const { return kind == pinned || kind == registered; }
};

class AddressMap {
 public:
  void add(Region r) {
    std::unique_lock lock(mutex_);
    r.id = next_id_++;
    regions_[r.base] = r;
  }
  // Removes the region of this kind that begins at `base`. Returns false if there is none.
  bool remove(uint64_t base, Region::Kind kind, Region* out = nullptr) {
    std::unique_lock lock(mutex_);
    auto it = regions_.find(base);
    if (it == regions_.end() || it->second.kind != kind) return false;
    if (out) *out = it->second;
    regions_.erase(it);
    return true;
  }
  // Returns the region that contains an address; kind none if there is none.
  Region find(uint64_t address) const {
    std::shared_lock lock(mutex_);
    auto it = regions_.upper_bound(address);
    if (it == regions_.begin()) return {};
    --it;
    return address - it->first < it->second.bytes ? it->second : Region{};
  }
  // Returns false if the address is not in device memory.
  bool set_synchronous(uint64_t address, bool value) {
    std::unique_lock lock(mutex_);
    auto it = regions_.upper_bound(address);
    if (it == regions_.begin()) return false;
    Region& r = (--it)->second;
    if (address - r.base >= r.bytes || !r.on_device()) return false;
    r.synchronous = value;
    return true;
  }
  std::vector<Region> of_context(const Context* c) const {
    std::shared_lock lock(mutex_);
    std::vector<Region> list;
    for (auto& [base, r] : regions_)
      if (r.context == c) list.push_back(r);
    return list;
  }
  // Return whether device memory covers the range. Adjacent mapped regions count as one.
  bool device_range(uint64_t address, uint64_t bytes) const {
    if (bytes == 0) return true;
    for (;;) {
      Region r = find(address);
      if (!r.on_device()) return false;
      uint64_t here = r.base + r.bytes - address;
      if (bytes <= here) return true;
      if (r.kind != Region::mapped) return false;
      address += here;
      bytes -= here;
    }
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Region> regions_;  // by base
  uint64_t next_id_ = 1;
};

}  // namespace busbar::client

// Every address range the program got from us, and what it is. Answers pointer queries without the
// node.
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
    device,
    global,
    mapped,
    managed,
    pinned,
    registered
  } kind = none;  // mapped: by the program's own VMM calls
  uint64_t base = 0, bytes = 0, id = 0;
  Context* context = nullptr;
  unsigned flags = 0;
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
  bool remove(uint64_t base, Region::Kind kind, Region* out = nullptr) {
    std::unique_lock lock(mutex_);
    auto it = regions_.find(base);
    if (it == regions_.end() || it->second.kind != kind) return false;
    if (out) *out = it->second;
    regions_.erase(it);
    return true;
  }
  Region find(uint64_t address) const {
    std::shared_lock lock(mutex_);
    auto it = regions_.upper_bound(address);
    if (it == regions_.begin()) return {};
    --it;
    return address - it->first < it->second.bytes ? it->second : Region{};
  }
  std::vector<Region> of_context(const Context* c) const {
    std::shared_lock lock(mutex_);
    std::vector<Region> list;
    for (auto& [base, r] : regions_)
      if (r.context == c) list.push_back(r);
    return list;
  }
  // The whole range lies in one region of device memory.
  bool device_range(uint64_t address, uint64_t bytes) const {
    if (bytes == 0) return true;
    // Neighbouring mappings of the program's own make one range.
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
  std::map<uint64_t, Region> regions_;
  uint64_t next_id_ = 1;
};

}  // namespace busbar::client

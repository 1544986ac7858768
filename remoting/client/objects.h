// Which node knows an object of the driver's, and in which context it was made. The value itself is the node's.
#pragma once
#include <array>
#include <mutex>
#include <unordered_map>

#include "wire/object_kind.h"

namespace busbar::client {

class Link;
struct Context;

class Objects {
 public:
  struct Home { Link* link = nullptr; Context* context = nullptr; };
  void add(ObjectKind kind, uint64_t value, Home home) { std::lock_guard lock(mutex_); if (value) map(kind)[value] = home; }
  void remove(ObjectKind kind, uint64_t value) { std::lock_guard lock(mutex_); map(kind).erase(value); }
  // `link` is null when there is no such object.
  Home find(ObjectKind kind, uint64_t value) const {
    std::lock_guard lock(mutex_);
    auto& m = homes_[(size_t)kind];
    auto it = m.find(value);
    return it == m.end() ? Home{} : it->second;
  }

 private:
  std::unordered_map<uint64_t, Home>& map(ObjectKind kind) { return homes_[(size_t)kind]; }
  mutable std::mutex mutex_;
  std::array<std::unordered_map<uint64_t, Home>, (size_t)ObjectKind::count> homes_;
};

}  // namespace busbar::client

// The values that the client may name. A graph owns its nodes and the graphs inside them, a mipmap its levels: they go when it goes.
#pragma once
#include <array>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "wire/format.h"
#include "wire/object_kind.h"

namespace busbar::server {

class Objects {
 public:
  // False when there are too many.
  bool add(ObjectKind kind, uint64_t value, uint64_t owner = 0, uint64_t bytes = 0, uint32_t partition = 0) {
    std::lock_guard lock(mutex_);
    auto& m = map(kind);
    if (!value || m.size() >= wire::kMaxObjects) return false;
    m[value] = {owner, bytes, partition};
    return true;
  }
  bool known(ObjectKind kind, uint64_t value) const {
    std::lock_guard lock(mutex_);
    return map(kind).count(value) != 0;
  }
  uint64_t owner(ObjectKind kind, uint64_t value) const {
    std::lock_guard lock(mutex_);
    auto it = map(kind).find(value);
    return it == map(kind).end() ? 0 : it->second.owner;
  }
  struct Entry { uint64_t owner = 0, bytes = 0; uint32_t partition = 0; };
  // What it was charged with.
  Entry remove(ObjectKind kind, uint64_t value) {
    std::lock_guard lock(mutex_);
    auto it = map(kind).find(value);
    if (it == map(kind).end()) return {};
    Entry e = it->second;
    map(kind).erase(it);
    if (kind == ObjectKind::graph) remove_owned(value);
    if (kind == ObjectKind::mipmap) std::erase_if(this->map(ObjectKind::array), [&](auto& a) { return a.second.owner == value; });
    return e;
  }

 private:
  using Map = std::unordered_map<uint64_t, Entry>;
  const Map& map(ObjectKind kind) const { return entries_[(size_t)kind]; }
  Map& map(ObjectKind kind) { return entries_[(size_t)kind]; }
  void remove_owned(uint64_t graph) {
    std::erase_if(map(ObjectKind::node), [&](auto& n) { return n.second.owner == graph; });
    std::vector<uint64_t> inner;
    for (auto& [value, e] : map(ObjectKind::graph)) if (e.owner == graph) inner.push_back(value);
    for (uint64_t g : inner) { map(ObjectKind::graph).erase(g); remove_owned(g); }
  }
  mutable std::mutex mutex_;
  std::array<Map, (size_t)ObjectKind::count> entries_;
};

}  // namespace busbar::server

// The driver's objects that one end knows, by the value that the driver gave them. A graph owns its
// nodes and the graphs inside them, a mipmap its levels: they go when it goes.
#pragma once
#include <array>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "wire/format.h"
#include "wire/object_kind.h"

namespace busbar {

// `Note` is what this end has to remember of each.
template <typename Note>
class Objects {
 public:
  struct Entry {
    uint64_t owner = 0;
    Note note{};
  };
  struct Named {
    ObjectKind kind;
    uint64_t value;
    Entry entry;
  };
  using Taken = std::vector<Named>;

  // What is known stays as it is. False when there are too many.
  bool add(ObjectKind kind, uint64_t value, uint64_t owner = 0, const Note& note = {}) {
    std::lock_guard lock(mutex_);
    if (!value || map(kind).size() >= wire::kMaxObjects) return false;
    insert({kind, value, {owner == value ? 0 : owner, note}});
    return true;
  }
  bool known(ObjectKind kind, uint64_t value) const { return find(kind, value).has_value(); }
  uint64_t owner(ObjectKind kind, uint64_t value) const {
    return find(kind, value).value_or(Entry{}).owner;
  }
  std::optional<Entry> find(ObjectKind kind, uint64_t value) const {
    std::lock_guard lock(mutex_);
    auto& m = entries_[(size_t)kind];
    auto it = m.find(value);
    return it == m.end() ? std::nullopt : std::optional(it->second);
  }
  // The object first, then what it owns; empty when it is not known. An object is taken before the
  // driver is asked to destroy it: a moment later its value may be another's.
  Taken take(ObjectKind kind, uint64_t value) {
    std::lock_guard lock(mutex_);
    Taken taken;
    extract(kind, value, taken);
    return taken;
  }
  void put_back(Taken taken) {
    std::lock_guard lock(mutex_);
    for (auto& object : taken) insert(std::move(object));
  }

 private:
  using Map = std::unordered_map<uint64_t, Entry>;
  Map& map(ObjectKind kind) { return entries_[(size_t)kind]; }
  void insert(Named object) {
    auto [it, added] = map(object.kind).try_emplace(object.value, std::move(object.entry));
    if (added && it->second.owner) owned_[it->second.owner].insert({object.kind, object.value});
  }
  void extract(ObjectKind kind, uint64_t value, Taken& taken) {
    auto it = map(kind).find(value);
    if (it == map(kind).end()) return;
    if (auto siblings = owned_.find(it->second.owner); siblings != owned_.end()) {
      siblings->second.erase({kind, value});
      if (siblings->second.empty()) owned_.erase(siblings);
    }
    taken.push_back({kind, value, std::move(it->second)});
    map(kind).erase(it);
    auto mine = owned_.extract(value);
    if (mine)
      for (auto& [k, v] : mine.mapped()) extract(k, v, taken);
  }
  mutable std::mutex mutex_;
  std::array<Map, (size_t)ObjectKind::count> entries_;
  std::unordered_map<uint64_t, std::set<std::pair<ObjectKind, uint64_t>>> owned_;
};

}  // namespace busbar

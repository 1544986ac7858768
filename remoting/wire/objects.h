// Registry of the driver objects that one end of a session has seen, keyed by the driver's value.
//
// An object can have an owner: a graph owns its nodes and the graphs inside them, a mipmap owns its
// levels. Removing the owner removes its objects too.
//
// Thread safety: all members of Objects may be called from any thread. One mutex, never held while
// another lock is taken.
#pragma once
#include <array>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mutex.h"
#include "wire/format.h"
#include "wire/object_kind.h"

namespace busbar {

// True on a thread to which pinned objects are known.
inline thread_local bool t_uses_pinned_objects = false;

// `Metadata` is the data that this end keeps for each object.
template <typename Metadata>
class Objects {
 public:
  struct Entry {
    uint64_t owner = 0;  // 0: none
    Metadata metadata{};
  };
  struct Object {
    ObjectKind kind;
    uint64_t value;
    Entry entry;
  };
  using Removed = std::vector<Object>;

  // Adds an object; a known object keeps its entry. Returns false for value 0 and at the limit of
  // kMaxObjects of one kind.
  bool add(ObjectKind kind, uint64_t value, uint64_t owner = 0, const Metadata& metadata = {}) {
    MutexLock lock(mutex_);
    if (!value || map(kind).size() >= wire::kMaxObjects) return false;
    insert({kind, value, {owner == value ? 0 : owner, metadata}});
    return true;
  }
  bool contains(ObjectKind kind, uint64_t value) const { return find(kind, value).has_value(); }
  uint64_t owner(ObjectKind kind, uint64_t value) const {
    return find(kind, value).value_or(Entry{}).owner;
  }
  std::optional<Entry> find(ObjectKind kind, uint64_t value) const {
    MutexLock lock(mutex_);
    auto& m = entries_[(size_t)kind];
    auto it = m.find(value);
    if (it == m.end() || (!pinned_.empty() && !t_uses_pinned_objects && hidden(*it)))
      return std::nullopt;
    return it->second;
  }
  // Hides a known object, and what it owns, from threads without `t_uses_pinned_objects`, until it
  // was unpinned as often. False if it is unknown.
  bool pin(ObjectKind kind, uint64_t value) {
    MutexLock lock(mutex_);
    if (!map(kind).count(value)) return false;
    ++pinned_[value];
    return true;
  }
  void unpin(uint64_t value) {
    MutexLock lock(mutex_);
    auto it = pinned_.find(value);
    if (it != pinned_.end() && !--it->second) pinned_.erase(it);
  }
  uint64_t owner_of_pinned(ObjectKind kind, uint64_t value) const {
    MutexLock lock(mutex_);
    auto& m = entries_[(size_t)kind];
    auto it = m.find(value);
    return it == m.end() ? 0 : it->second.owner;
  }
  // Gives a known object another owner (0: none).
  void set_owner(ObjectKind kind, uint64_t value, uint64_t owner) {
    MutexLock lock(mutex_);
    auto it = map(kind).find(value);
    if (it == map(kind).end()) return;
    leave_owner(it->second.owner, kind, value);
    it->second.owner = owner;
    if (owner) owned_[owner].insert({kind, value});
  }
  // Removes an object and its owned objects. Returns the object first; empty when it is unknown.
  // Call it before the driver destroys the object: afterwards the driver may reuse the value.
  Removed remove(ObjectKind kind, uint64_t value) {
    MutexLock lock(mutex_);
    Removed removed;
    extract(kind, value, removed);
    return removed;
  }
  // Undoes remove() when the driver did not destroy the object.
  void restore(Removed removed) {
    MutexLock lock(mutex_);
    for (auto& object : removed) insert(std::move(object));
  }

 private:
  using Map = std::unordered_map<uint64_t, Entry>;
  // True if the object or one of its owners is pinned.
  bool hidden(const std::pair<const uint64_t, Entry>& object) const REQUIRES(mutex_) {
    constexpr int kMaxDepth = 64;
    uint64_t value = object.first, owner = object.second.owner;
    for (int i = 0; i < kMaxDepth; ++i) {
      if (pinned_.count(value)) return true;
      if (!owner) return false;
      value = std::exchange(owner, 0);
      for (ObjectKind kind : {ObjectKind::graph, ObjectKind::node, ObjectKind::mipmap})
        if (auto it = entries_[(size_t)kind].find(value); it != entries_[(size_t)kind].end())
          owner = it->second.owner;
    }
    return true;
  }
  Map& map(ObjectKind kind) REQUIRES(mutex_) { return entries_[(size_t)kind]; }
  void insert(Object object) REQUIRES(mutex_) {
    auto [it, added] = map(object.kind).try_emplace(object.value, std::move(object.entry));
    if (added && it->second.owner) owned_[it->second.owner].insert({object.kind, object.value});
  }
  void leave_owner(uint64_t owner, ObjectKind kind, uint64_t value) REQUIRES(mutex_) {
    auto siblings = owned_.find(owner);
    if (siblings == owned_.end()) return;
    siblings->second.erase({kind, value});
    if (siblings->second.empty()) owned_.erase(siblings);
  }
  void extract(ObjectKind kind, uint64_t value, Removed& removed) REQUIRES(mutex_) {
    auto it = map(kind).find(value);
    if (it == map(kind).end()) return;
    leave_owner(it->second.owner, kind, value);
    removed.push_back({kind, value, std::move(it->second)});
    map(kind).erase(it);
    auto owned = owned_.extract(value);
    if (owned)
      for (auto& [k, v] : owned.mapped()) extract(k, v, removed);
  }
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, uint32_t> pinned_ GUARDED_BY(mutex_);  // how often
  std::array<Map, (size_t)ObjectKind::count> entries_ GUARDED_BY(mutex_);
  // By owner.
  std::unordered_map<uint64_t, std::set<std::pair<ObjectKind, uint64_t>>> owned_ GUARDED_BY(mutex_);
};

}  // namespace busbar

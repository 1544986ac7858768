// Objects by the client's id, with a small cache in front of the hash table: a launch looks up its
// context and its stream, and finds both in the cache.
//
// Thread safety: none; one thread only. An object keeps its address until it is erased.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>

namespace busbar::server {

template <typename T>
class HandleMap {
 public:
  // Null when there is no such id.
  T* find(uint32_t id) {
    auto& [known, object] = recent_[id % kRecent];
    if (object && known == id) return object;
    auto it = all_.find(id);
    if (it == all_.end()) return nullptr;
    known = id;
    return object = &it->second;
  }
  T& put(uint32_t id, T object) { return all_[id] = std::move(object); }
  void erase(uint32_t id) {
    forget(id);
    all_.erase(id);
  }
  template <typename F>
  void erase_if(F unwanted) {
    std::erase_if(all_, [&](auto& entry) {
      if (!unwanted(entry)) return false;
      forget(entry.first);
      return true;
    });
  }
  size_t size() const { return all_.size(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  static constexpr uint32_t kRecent = 64;
  void forget(uint32_t id) {
    if (recent_[id % kRecent].first == id) recent_[id % kRecent] = {};
  }
  std::unordered_map<uint32_t, T> all_;
  std::array<std::pair<uint32_t, T*>, kRecent> recent_{};
};

}  // namespace busbar::server

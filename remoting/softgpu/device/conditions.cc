#include "softgpu/device/conditions.h"

#include <mutex>
#include <unordered_map>

namespace softgpu {

namespace {
std::mutex g_mutex;
auto* g_values =
    new std::unordered_map<uint64_t, uint32_t>;  // never destroyed, as all driver state
uint64_t g_next = 0x434f4e44ull << 32;           // "COND": unlikely as an accidental value
}  // namespace

uint64_t make_condition(uint32_t value) {
  std::lock_guard lock(g_mutex);
  (*g_values)[++g_next] = value;
  return g_next;
}
void delete_condition(uint64_t handle) {
  std::lock_guard lock(g_mutex);
  g_values->erase(handle);
}
bool set_condition(uint64_t handle, uint32_t value) {
  std::lock_guard lock(g_mutex);
  auto it = g_values->find(handle);
  if (it == g_values->end()) return false;
  it->second = value;
  return true;
}
uint32_t condition(uint64_t handle) {
  std::lock_guard lock(g_mutex);
  auto it = g_values->find(handle);
  return it == g_values->end() ? 0 : it->second;
}

}  // namespace softgpu

#include "client/session.h"

namespace busbar::client {

static std::atomic<Session*> g_session{nullptr};
static std::atomic<bool> g_open{false};

bool has_session() {
  return g_open.load(std::memory_order_acquire);
}

Session* session() {
  return g_session.load(std::memory_order_acquire);
}

void publish_session(Session* s) {
  g_session.store(s, std::memory_order_release);
  g_open.store(true, std::memory_order_release);
}

Session* end_session() {
  return g_open.exchange(false) ? session() : nullptr;
}

Device* find_device(int ordinal) {
  Session* s = has_session() ? session() : nullptr;
  bool valid = s && ordinal >= 0 && ordinal < (int)s->devices.size();
  return valid ? s->devices[(size_t)ordinal].get() : nullptr;
}

ObjectHome home_of(ObjectKind kind, uint64_t value) {
  auto entry = session()->objects.find(kind, value);
  return entry ? entry->metadata : ObjectHome{};
}

}  // namespace busbar::client

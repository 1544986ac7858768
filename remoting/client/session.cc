#include "client/session.h"

namespace busbar::client {

namespace {
enum class State { none, open, admits_cuda_calls };

std::atomic<Session*> g_session{nullptr};
std::atomic<State> g_state{State::none};
}  // namespace

bool has_session() {
  return g_state.load(std::memory_order_acquire) == State::admits_cuda_calls;
}

bool has_open_session() {
  return g_state.load(std::memory_order_acquire) != State::none;
}

Session* session() {
  return g_session.load(std::memory_order_acquire);
}

void publish_session(Session* s) {
  g_session.store(s, std::memory_order_release);
  g_state.store(State::open, std::memory_order_release);
}

void admit_cuda_calls() {
  State expected = State::open;  // the process may have begun to exit
  g_state.compare_exchange_strong(expected, State::admits_cuda_calls);
}

Session* end_session() {
  return g_state.exchange(State::none) == State::none ? nullptr : session();
}

Device* find_device(int ordinal) {
  Session* s = has_session() ? session() : nullptr;
  bool valid = s && ordinal >= 0 && ordinal < (int)s->devices.size();
  return valid ? s->devices[(size_t)ordinal] : nullptr;
}

ObjectHome home_of(ObjectKind kind, uint64_t value) {
  auto entry = session()->objects.find(kind, value);
  return entry ? entry->metadata : ObjectHome{};
}

}  // namespace busbar::client

#include "server/shared_events.h"

#include <fcntl.h>
#include <openssl/rand.h>

#include <algorithm>

#include "transport/clock.h"

namespace busbar::server {

namespace {
constexpr int64_t kLookMs = 1000;
// A launcher that starts again shows a session that goes on some moments after the others.
constexpr uint32_t kLooksUntilEnd = 3;
constexpr uint32_t kMostSessions = 2 * control::kLedgerSessions;  // others wrote nonsense
}  // namespace

static bool is_passed(const StreamMark& mark) {
  return mark.first->completed >= mark.second;
}

bool SharedEvents::offer(const std::shared_ptr<SharedEvent>& event, IpcSecret& secret) {
  std::lock_guard lock(mutex_);
  std::erase_if(offered_, [](auto& entry) { return entry.second.expired(); });
  for (auto& [known, offered] : offered_)
    if (offered.lock() == event) {
      secret = known;
      return true;
    }
  if (RAND_bytes(secret.data(), (int)secret.size()) != 1) return false;
  offered_[secret] = event;
  return true;
}

bool SharedEvents::keep(uint32_t id, std::shared_ptr<SharedEvent> event) {
  std::lock_guard lock(mutex_);
  return kept_.size() < kMax && kept_.emplace(id, std::move(event)).second;
}

std::shared_ptr<SharedEvent> SharedEvents::take(uint32_t id) {
  std::lock_guard lock(mutex_);
  auto it = kept_.find(id);
  if (it == kept_.end()) return nullptr;
  auto event = std::move(it->second);
  kept_.erase(it);
  if (any() && created_.size() >= kMax) {
    retire(std::move(event), {});
    return nullptr;
  }
  created_.push_back(event);
  return event;
}

int SharedEvents::descriptor_of(const IpcSecret& secret) {
  std::lock_guard lock(mutex_);
  auto it = offered_.find(secret);
  auto event = it == offered_.end() ? nullptr : it->second.lock();
  return event ? fcntl(event->descriptor(), F_DUPFD_CLOEXEC, 0) : -1;
}

bool SharedEvents::any() {
  std::erase_if(created_, [](auto& event) { return event.expired(); });
  return !created_.empty();
}

uint32_t SharedEvents::begin_record(SharedEvent& event, const Account& account) {
  if (!own_session_) own_session_ = account.own_session();
  return event.begin_record(own_session_);
}

void SharedEvents::look_for_ends(const Account& account) {
  int64_t now_ms = transport::now_ms();
  if (now_ms < next_look_ms_) return;
  next_look_ms_ = now_ms + kLookMs;
  std::unordered_map<uint32_t, uint32_t> absent;
  auto has_ended = [&](uint32_t session) {
    if (!session || absent.size() >= kMostSessions) return false;
    auto [looks, is_new] = absent.try_emplace(session, 0);
    if (is_new && !account.has_session((pid_t)session)) {
      auto before = absent_.find(session);
      looks->second = before == absent_.end() ? 1 : before->second + 1;
    }
    return looks->second >= kLooksUntilEnd;
  };
  for (auto& weak : created_)
    if (auto event = weak.lock()) event->complete_abandoned(has_ended);
  absent_ = std::move(absent);
}

void SharedEvents::leave(StreamMark mark) {
  std::erase_if(left_, is_passed);
  left_.push_back(std::move(mark));
}

void SharedEvents::retire(std::shared_ptr<SharedEvent> event, std::vector<StreamMark> marks) {
  marks.insert(marks.end(), left_.begin(), left_.end());
  retired_.push_back({std::move(event), std::move(marks)});
}

std::vector<std::shared_ptr<SharedEvent>> SharedEvents::take_ended() {
  std::vector<std::shared_ptr<SharedEvent>> ended;
  std::erase_if(retired_, [&](Retired& r) {
    if (!std::all_of(r.marks.begin(), r.marks.end(), is_passed)) return false;
    ended.push_back(std::move(r.event));
    return true;
  });
  return ended;
}

}  // namespace busbar::server

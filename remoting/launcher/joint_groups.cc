// Arbiters: allocations that get turns on several GPUs together.
#include <algorithm>
#include <set>

#include "launcher/arbiters.h"

namespace busbar::launcher {

using control::TurnState;

namespace {
constexpr Microseconds kStall = 3'000;
constexpr uint32_t kUnusedTurns = 8;
}  // namespace

// The GPUs that the allocation uses and must share, if these are two or more.
std::vector<Arbiters::Gpu*> Arbiters::joint_gpus(const std::string& allocation) {
  std::vector<Gpu*> gpus;
  auto it = sessions_.find(allocation);
  if (it == sessions_.end()) return gpus;
  for (Member* member : it->second)
    for (uint32_t p = 0; p < member->partitions; ++p, ++places_seen_) {
      const Place& place = member->places[p];
      bool is_used = place.unused_turns < kUnusedTurns || place.stage != Stage::idle;
      if (is_used && !place.gpu->arbiter.is_open() && !std::ranges::count(gpus, place.gpu))
        gpus.push_back(place.gpu);
    }
  if (gpus.size() < 2) gpus.clear();
  return gpus;
}

joint_turns::Group Arbiters::joint_group(const std::string& allocation) {
  joint_turns::Group group{allocation, {}};
  for (Gpu* gpu : joint_gpus(allocation)) group.arbiters.push_back(&gpu->arbiter);
  return group;
}

void Arbiters::update_joint(const std::string& allocation) {
  auto joint = joint_gpus(allocation);
  for (auto& [uuid, gpu] : gpus_)
    gpu.changed |= gpu.arbiter.set_joint(allocation, std::ranges::count(joint, &gpu));
}

// After a change of who shares this GPU.
void Arbiters::update_joint(const Gpu& gpu) {
  for (auto& [member, partition] : gpu.places)
    if (member->partitions > 1) update_joint(member->account.allocation);
}

void Arbiters::want(Gpu& gpu, const std::string& allocation, Microseconds now) {
  gpu.arbiter.want(allocation, now);
  for (Gpu* joint : joint_gpus(allocation)) {
    joint->arbiter.want(allocation, now);
    joint->changed = true;
  }
}

// A joint turn also goes on without work here, until no GPU has work: work on another one may wait
// for work that is not submitted here yet.
bool Arbiters::keeps_turn(const Gpu& gpu, const std::string& allocation) {
  if (is_busy(gpu, allocation)) return true;
  auto joint = joint_gpus(allocation);
  if (!std::ranges::count(joint, &gpu)) return false;
  bool waits_for_others = !gpu.arbiter.has_begun() && !gpu.arbiter.is_revoked();
  return waits_for_others ||
         std::ranges::any_of(joint, [&](Gpu* other) { return is_busy(*other, allocation); });
}

// An allocation with joint turns waits on all of its GPUs if it waits on one.
bool Arbiters::has_waiting(const Gpu& gpu, const std::string& allocation) {
  auto waits = [&](const Gpu& g) {
    return std::ranges::any_of(places_on(g, allocation), [](auto& entry) {
      return entry.first->places[entry.second].stage == Stage::wants;
    });
  };
  auto joint = joint_gpus(allocation);
  return waits(gpu) || std::ranges::any_of(joint, [&](Gpu* other) { return waits(*other); });
}

// True while the work of the holder of this GPU may run.
bool Arbiters::may_run(const Gpu& gpu, const std::string& holder) {
  return !gpu.arbiter.is_revoked() && joint_turns::is_ready(joint_group(holder));
}

std::set<std::string> Arbiters::joint_allocations(const std::set<Gpu*>& gpus) {
  std::set<std::string> allocations;
  for (Gpu* gpu : gpus) allocations.insert(gpu->joint.begin(), gpu->joint.end());
  return allocations;
}

void Arbiters::mark_changed(const std::string& allocation) {
  for (Member* member : sessions_.at(allocation))
    for (uint32_t p = 0; p < member->partitions; ++p) member->places[p].gpu->changed = true;
}

// Joint turns change only when one of their GPUs has.
void Arbiters::advance_joint(const std::set<Gpu*>& gpus, Microseconds now) {
  std::vector<joint_turns::Group> groups;
  for (auto& id : joint_allocations(gpus)) {
    update_joint(id);
    auto group = joint_group(id);
    if (group.arbiters.empty())
      stalls_.erase(id);
    else
      groups.push_back(std::move(group));
  }
  std::vector<bool> were_ready;
  for (auto& group : groups) were_ready.push_back(joint_turns::has_begun(group));
  bool changed = joint_turns::advance(groups, now);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!were_ready[i] && joint_turns::has_begun(groups[i])) count_joint_turn(groups[i].id);
    help_drain(groups[i], now);
    if (changed) mark_changed(groups[i].id);
  }
}

void Arbiters::count_joint_turn(const std::string& allocation) {
  for (Member* member : sessions_.at(allocation))
    for (uint32_t p = 0; p < member->partitions; ++p)
      if (member->places[p].stage == Stage::idle) ++member->places[p].unused_turns;
}

// The last kernel of a turn on one GPU may wait for a kernel on another one that came too late. So
// when the turn does not drain, the GPUs that have nothing to do admit one record each.
void Arbiters::help_drain(const joint_turns::Group& group, Microseconds now) {
  bool ends = std::ranges::any_of(group.arbiters, [&](Arbiter* a) {
    return a->holder() && *a->holder() == group.id && a->is_revoked();
  });
  if (!ends) {
    stalls_.erase(group.id);
    return;
  }
  auto& stalled_at = stalls_.try_emplace(group.id, now + kStall).first->second;
  if (now < stalled_at) return;
  stalled_at = now + kStall;
  admit_single(group);
}

void Arbiters::admit_single(const joint_turns::Group& group) {
  for (Gpu* gpu : joint_gpus(group.id)) {
    auto* holder = gpu->arbiter.holder();
    bool has_drained = holder && *holder == group.id && !is_busy(*gpu, group.id);
    if (!has_drained) continue;
    for (auto& [member, partition] : places_on(*gpu, group.id)) {
      Place& place = member->places[partition];
      if (place.stage != Stage::wants) continue;
      place.stage = Stage::draining;
      place.is_single = true;
      place.turn = gpu->arbiter.renumber();
      show_word(*member, partition, place.turn, TurnState::single);
    }
  }
}

}  // namespace busbar::launcher

// Arbiters: allocations that get turns on several GPUs together.
#include <algorithm>

#include "launcher/arbiters.h"

namespace busbar::launcher {

using control::TurnState;

namespace {
constexpr Microseconds kStall = 3'000;
constexpr uint32_t kUnusedTurns = 8;
}  // namespace

// The GPUs that the allocation uses and must share, if these are two or more.
std::vector<Arbiters::Gpu*> Arbiters::joint_gpus(const Allocation& allocation) {
  std::vector<Gpu*> gpus;
  if (!allocation.is_joint) return gpus;
  for (Member* member : allocation.sessions)
    for (uint32_t p = 0; p < member->partitions; ++p, ++places_seen_) {
      const Place& place = member->places[p];
      bool is_used = place.unused_turns < kUnusedTurns || place.stage != Stage::idle;
      if (is_used && !place.gpu->arbiter.is_open() && !std::ranges::count(gpus, place.gpu))
        gpus.push_back(place.gpu);
    }
  if (gpus.size() < 2) gpus.clear();
  return gpus;
}

joint_turns::Group Arbiters::joint_group(const Arbiter::Id& id, const std::vector<Gpu*>& gpus) {
  joint_turns::Group group{id, {}};
  group.arbiters.reserve(gpus.size());
  for (Gpu* gpu : gpus) group.arbiters.push_back(&gpu->arbiter);
  return group;
}

void Arbiters::update_joint(Allocation& allocation) {
  if (!allocation.is_joint) return;
  allocation.joint = joint_gpus(allocation);
  for (auto& [uuid, gpu] : gpus_)
    gpu.changed |= gpu.arbiter.set_joint(allocation.id, std::ranges::count(allocation.joint, &gpu));
}

// After a change of who shares this GPU.
void Arbiters::update_joint(const Gpu& gpu) {
  for (auto& [id, allocation] : gpu.joint) update_joint(*allocation);
}

void Arbiters::want(Gpu& gpu, const Allocation& allocation, Microseconds now) {
  gpu.arbiter.want(allocation.id, now);
  for (Gpu* joint : joint_gpus(allocation)) {
    joint->arbiter.want(allocation.id, now);
    joint->changed = true;
  }
}

// A joint turn also goes on without work here, until no GPU has work: work on another one may wait
// for work that is not submitted here yet.
bool Arbiters::keeps_turn(const Gpu& gpu, const Allocation& allocation) {
  if (is_busy(gpu, allocation.id)) return true;
  auto joint = joint_gpus(allocation);
  if (!std::ranges::count(joint, &gpu)) return false;
  bool waits_for_others = !gpu.arbiter.has_begun() && !gpu.arbiter.is_revoked();
  return waits_for_others || std::ranges::any_of(joint, [&](Gpu* other) REQUIRES(mutex_) {
           return is_busy(*other, allocation.id);
         });
}

// An allocation with joint turns waits on all of its GPUs if it waits on one.
bool Arbiters::has_waiting(const Gpu& gpu, const Allocation& allocation) {
  auto waits = [&](const Gpu& g) REQUIRES(mutex_) {
    return std::ranges::any_of(places_on(g, allocation.id), [](auto& entry) {
      return entry.first->places[entry.second].stage == Stage::wants;
    });
  };
  auto joint = joint_gpus(allocation);
  return waits(gpu) ||
         std::ranges::any_of(joint, [&](Gpu* other) REQUIRES(mutex_) { return waits(*other); });
}

// True while the work of the holder of this GPU may run.
bool Arbiters::may_run(const Gpu& gpu, const Allocation& holder) {
  return !gpu.arbiter.is_revoked() &&
         joint_turns::is_ready(joint_group(holder.id, joint_gpus(holder)));
}

void Arbiters::mark_changed(const Allocation& allocation) {
  for (Member* member : allocation.sessions)
    for (uint32_t p = 0; p < member->partitions; ++p) member->places[p].gpu->changed = true;
}

// Joint turns change only when one of their GPUs has.
void Arbiters::advance_joint(const std::vector<Gpu*>& gpus, Microseconds now) {
  Joint joint;
  for (Gpu* gpu : gpus) joint.insert(gpu->joint.begin(), gpu->joint.end());
  std::vector<joint_turns::Group> groups;
  for (auto& [id, allocation] : joint) {
    if (joint_gpus(*allocation) != allocation->joint) update_joint(*allocation);
    if (allocation->joint.empty())
      stalls_.erase(allocation);
    else
      groups.push_back(joint_group(id, allocation->joint));
  }
  std::vector<bool> were_ready;
  for (auto& group : groups) were_ready.push_back(joint_turns::has_begun(group));
  bool changed = joint_turns::advance(groups, now);
  for (size_t i = 0; i < groups.size(); ++i) {
    const Allocation& allocation = *joint.at(groups[i].id);
    if (!were_ready[i] && joint_turns::has_begun(groups[i])) count_joint_turn(allocation);
    help_drain(groups[i], allocation, now);
    if (changed) mark_changed(allocation);
  }
}

void Arbiters::count_joint_turn(const Allocation& allocation) {
  for (Member* member : allocation.sessions)
    for (uint32_t p = 0; p < member->partitions; ++p)
      if (member->places[p].stage == Stage::idle) ++member->places[p].unused_turns;
}

// The last kernel of a turn on one GPU may wait for a kernel on another one that came too late. So
// when the turn does not drain, the GPUs that have nothing to do admit one record each.
void Arbiters::help_drain(const joint_turns::Group& group, const Allocation& allocation,
                          Microseconds now) {
  bool ends = std::ranges::any_of(
      group.arbiters, [&](Arbiter* a) { return a->holder() == group.id && a->is_revoked(); });
  if (!ends) {
    stalls_.erase(&allocation);
    return;
  }
  auto& stalled_at = stalls_.try_emplace(&allocation, now + kStall).first->second;
  if (now < stalled_at) return;
  stalled_at = now + kStall;
  admit_single(allocation);
}

void Arbiters::admit_single(const Allocation& allocation) {
  for (Gpu* gpu : joint_gpus(allocation)) {
    if (gpu->arbiter.holder() != allocation.id || is_busy(*gpu, allocation.id)) continue;
    for (auto& [member, partition] : places_on(*gpu, allocation.id)) {
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

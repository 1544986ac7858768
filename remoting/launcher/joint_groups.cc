// Arbiters: allocations that get turns on several GPUs together.
#include <algorithm>
#include <set>

#include "launcher/arbiters.h"

namespace busbar::launcher {

using control::TurnState;

namespace {
constexpr Microseconds kStall = 3'000;
constexpr uint32_t kUnusedTurns = 8;

bool contains(const joint_turns::Group& group, const Arbiter& arbiter) {
  return std::ranges::count(group.arbiters, &arbiter);
}
}  // namespace

// The GPUs that the allocation uses and must share, if these are two or more.
joint_turns::Group Arbiters::joint_group(const std::string& allocation) {
  joint_turns::Group group{allocation, {}};
  auto is_used = [&](auto& entry) {
    const Place& place = entry.first->places[entry.second];
    return entry.first->account.allocation == allocation &&
           (place.unused_turns < kUnusedTurns || place.stage != Stage::idle);
  };
  for (auto& [uuid, gpu] : gpus_)
    if (!gpu.arbiter.is_open() && std::ranges::any_of(gpu.places, is_used))
      group.arbiters.push_back(&gpu.arbiter);
  if (group.arbiters.size() < 2) group.arbiters.clear();
  return group;
}

void Arbiters::update_joint(const std::string& allocation) {
  auto group = joint_group(allocation);
  for (auto& [uuid, gpu] : gpus_) gpu.arbiter.set_joint(allocation, contains(group, gpu.arbiter));
}

// After a change of who shares this GPU.
void Arbiters::update_joint(const Gpu& gpu) {
  for (auto& [member, partition] : gpu.places)
    if (member->partitions > 1) update_joint(member->account.allocation);
}

void Arbiters::want(Gpu& gpu, const std::string& allocation, Microseconds now) {
  gpu.arbiter.want(allocation, now);
  for (Arbiter* a : joint_group(allocation).arbiters) a->want(allocation, now);
}

// A joint turn also goes on without work here, until no GPU has work: work on another one may wait
// for work that is not submitted here yet.
bool Arbiters::keeps_turn(const Gpu& gpu, const std::string& allocation) {
  if (is_busy(gpu, allocation)) return true;
  auto group = joint_group(allocation);
  if (!contains(group, gpu.arbiter)) return false;
  bool waits_for_others = !gpu.arbiter.has_begun() && !gpu.arbiter.is_revoked();
  return waits_for_others || std::ranges::any_of(gpus_, [&](auto& entry) {
           return contains(group, entry.second.arbiter) && is_busy(entry.second, allocation);
         });
}

// An allocation with joint turns waits on all of its GPUs if it waits on one.
bool Arbiters::has_waiting(const Gpu& gpu, const std::string& allocation) {
  auto waits = [&](const Gpu& g) {
    return std::ranges::any_of(g.places, [&](auto& entry) {
      return entry.first->account.allocation == allocation &&
             entry.first->places[entry.second].stage == Stage::wants;
    });
  };
  auto group = joint_group(allocation);
  return waits(gpu) || std::ranges::any_of(gpus_, [&](auto& entry) {
           return contains(group, entry.second.arbiter) && waits(entry.second);
         });
}

// True during the turn of the member's allocation on this GPU.
bool Arbiters::may_run(const Gpu& gpu, const Member& member) {
  const std::string& id = member.account.allocation;
  auto* holder = gpu.arbiter.holder();
  if (!holder || *holder != id || gpu.arbiter.is_revoked()) return false;
  return member.partitions == 1 || joint_turns::is_ready(joint_group(id));
}

std::vector<joint_turns::Group> Arbiters::joint_groups() {
  std::set<std::string> allocations;
  for (auto& [fd, member] : members_)
    if (member->partitions > 1) allocations.insert(member->account.allocation);
  std::vector<joint_turns::Group> groups;
  for (auto& id : allocations) {
    update_joint(id);
    if (auto group = joint_group(id); !group.arbiters.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

// Returns true after a change.
bool Arbiters::advance_joint(Microseconds now) {
  auto groups = joint_groups();
  std::erase_if(stalls_, [&](auto& entry) {
    return std::ranges::count(groups, entry.first, &joint_turns::Group::id) == 0;
  });
  std::vector<bool> were_ready;
  for (auto& group : groups) were_ready.push_back(joint_turns::has_begun(group));
  bool changed = joint_turns::advance(groups, now);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!were_ready[i] && joint_turns::has_begun(groups[i])) count_joint_turn(groups[i].id);
    help_drain(groups[i], now);
  }
  return changed;
}

void Arbiters::count_joint_turn(const std::string& allocation) {
  for (auto& [uuid, gpu] : gpus_)
    for (auto& [member, partition] : gpu.places) {
      Place& place = member->places[partition];
      if (member->account.allocation == allocation && place.stage == Stage::idle)
        ++place.unused_turns;
    }
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
  for (auto& [uuid, gpu] : gpus_) {
    auto* holder = gpu.arbiter.holder();
    bool has_drained =
        contains(group, gpu.arbiter) && holder && *holder == group.id && !is_busy(gpu, group.id);
    if (!has_drained) continue;
    for (auto& [member, partition] : gpu.places) {
      Place& place = member->places[partition];
      if (member->account.allocation != group.id || place.stage != Stage::wants) continue;
      place.stage = Stage::draining;
      place.is_single = true;
      place.turn = gpu.arbiter.renumber();
      show_word(*member, partition, place.turn, TurnState::single);
    }
  }
}

}  // namespace busbar::launcher

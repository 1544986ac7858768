// Joint turns on two GPUs in simulated time: shares, progress, and that no GPU is used by two.
#include "launcher/joint_turns.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "unit_tests/account_ids.h"

namespace busbar::launcher {
namespace {

using control::ComputeMode;

constexpr Microseconds kMeasured = 10'000'000, kStep = 50;

// A tenant that has work on its GPUs, except in its pauses. With several of them, its kernels wait
// for each other: each takes `unit` of time during which it has all of its GPUs.
struct JointTenant {
  Arbiter::Id id;
  uint32_t percent;
  std::vector<int> gpus;
  Microseconds unit = 2000;
  Microseconds busy_for = 0, idle_for = 0;  // 0: it has no pauses
  Microseconds next_pause = 0, idle_until = 0;
  ComputeMode mode = ComputeMode::shared;
  Microseconds completed = 0;
  Microseconds running_until = 0;  // 0: nothing runs
};

class JointModel {
 public:
  JointModel(int gpus, std::vector<JointTenant> tenants)
      : gpus_((size_t)gpus), tenants_(std::move(tenants)) {
    for (auto& t : tenants_)
      for (int g : t.gpus) {
        gpus_[(size_t)g].set_share(t.id, {t.mode, t.percent}, 0);
        gpus_[(size_t)g].set_joint(t.id, t.gpus.size() > 1);
        gpus_[(size_t)g].want(t.id, 0);
      }
    // What the first account got as the only one is over.
    for (auto& gpu : gpus_)
      if (gpu.holder()) gpu.drained(gpu.holder(), true, 0);
  }

  void run(Microseconds duration) {
    for (Microseconds end = now_ + duration; now_ < end; now_ += kStep) step();
  }
  double percent_of(const Arbiter::Id& id) const {
    auto it = std::ranges::find(tenants_, id, &JointTenant::id);
    return 100.0 * (double)it->completed / (double)now_;
  }
  // From now on the tenant is a shared one without pauses.
  void change(JointTenant& t) {
    t.idle_for = 0;
    for (int g : t.gpus) {
      gpus_[(size_t)g].set_share(t.id, {ComputeMode::shared, t.percent}, now_);
      gpus_[(size_t)g].want(t.id, now_);
    }
  }
  JointTenant& tenant(size_t i) { return tenants_[i]; }
  Microseconds longest_wait() const { return longest_wait_; }

 private:
  joint_turns::Group group_of(const JointTenant& t) {
    joint_turns::Group group{t.id, {}};
    for (int g : t.gpus) group.arbiters.push_back(&gpus_[(size_t)g]);
    return group;
  }
  void step() {
    for (auto& gpu : gpus_) {
      gpu.advance(now_);
      EXPECT_FALSE(gpu.take_overdue()) << "a turn did not drain";
    }
    std::vector<joint_turns::Group> groups;
    for (auto& t : tenants_)
      if (t.gpus.size() > 1) groups.push_back(group_of(t));
    while (joint_turns::advance(groups, now_)) {
    }
    for (auto& t : tenants_) work(t);
    for (auto& t : tenants_) longest_wait_ = std::max(longest_wait_, now_ - last_end_[t.id]);
  }
  void work(JointTenant& t) {
    auto group = group_of(t);
    if (t.running_until && now_ >= t.running_until) {
      t.completed += t.unit;
      t.running_until = 0;
      last_end_[t.id] = now_;
    }
    if (t.running_until || pauses(t, group)) return;
    if (joint_turns::is_ready(group)) {
      t.running_until = now_ + t.unit;
      return;
    }
    for (Arbiter* a : group.arbiters)
      if (a->holder() == t.id && a->is_revoked()) a->drained(t.id, true, now_);
  }
  bool pauses(JointTenant& t, const joint_turns::Group& group) {
    if (now_ < t.idle_until || !t.idle_for) return now_ < t.idle_until;
    if (t.idle_until)
      for (Arbiter* a : group.arbiters) a->want(t.id, now_);
    t.idle_until = 0;
    if (t.completed < t.next_pause) return false;
    t.next_pause = t.completed + t.busy_for;
    for (Arbiter* a : group.arbiters) a->drained(t.id, false, now_);
    t.idle_until = now_ + t.idle_for;
    return true;
  }
  std::vector<Arbiter> gpus_;
  std::vector<JointTenant> tenants_;
  std::map<Arbiter::Id, Microseconds> last_end_;
  Microseconds now_ = 0, longest_wait_ = 0;
};

TEST(JointTurns, ShareOfAnAllocationOnTwoGpusHoldsBesideOthersOnEach) {
  JointModel model(2, {{kJoint, 50, {0, 1}}, {kX, 50, {0}}, {kY, 50, {1}}});
  model.run(kMeasured);
  for (auto& id : {kJoint, kX, kY}) EXPECT_NEAR(model.percent_of(id), 50, 1) << id.allocation;
}

// Their turns are so short that several rounds begin at once.
TEST(JointTurns, ShareHoldsBesideManySmallOnes) {
  std::vector<JointTenant> tenants{{kJoint, 2, {0, 1}, 500}};
  for (uint64_t i = 0; i < 16; ++i) tenants.push_back({{100 + i}, 1, {(int)i % 2}, 500});
  JointModel model(2, tenants);
  model.run(kMeasured / 2);
  EXPECT_NEAR(model.percent_of(kJoint), 20, 1);
}

// Two rounds begin at once on the first GPU, and one on the second GPU. The joint allocation pays
// for the wait until both are free.
TEST(JointTurns, NeighboursKeepTheirSharesIfTheGpusBeginDifferentNumbersOfRounds) {
  std::vector<JointTenant> tenants{{kJoint, 20, {0, 1}, 500}, {kY, 80, {1}, 500}};
  for (uint64_t i = 0; i < 80; ++i) tenants.push_back({{100 + i}, 1, {0}, 500});
  JointModel model(2, tenants);
  model.run(kMeasured / 2);
  EXPECT_GE(model.percent_of(kJoint), 10);
  EXPECT_GE(model.percent_of(kY), 79);
  for (uint64_t i = 0; i < 80; ++i) EXPECT_NEAR(model.percent_of({100 + i}), 1, 0.1) << i;
}

TEST(JointTurns, PausesOfANeighbourCostNoShare) {
  for (Microseconds pause : {3'000, 90'000}) {
    JointTenant paused{kX, 50, {0}, 1000, 1000, pause, 1000};
    JointModel model(2, {{kJoint, 50, {0, 1}}, paused, {kY, 50, {1}}});
    model.run(kMeasured);
    EXPECT_GE(model.percent_of(kJoint), 49) << pause;
    EXPECT_GE(model.percent_of(kY), 49) << pause;
  }
}

TEST(JointTurns, CappedTenantOwesNothingForPauses) {
  JointTenant capped{kCapped, 20, {0}, 1000, 2000, 20'000, 2000};
  capped.mode = ComputeMode::capped;
  JointTenant paused{kPaused, 40, {0}, 1000, 10'000, 6'000, 10'000};
  JointModel model(1, {capped, paused, {kSteady, 40, {0}, 50'000}});
  model.run(6 * kMeasured);
  JointTenant& t = model.tenant(0);
  model.change(t);
  Microseconds before = t.completed;
  model.run(kMeasured);
  EXPECT_GE(100 * (t.completed - before) / kMeasured, 19);
}

TEST(JointTurns, NeighboursKeepTheirSharesIfTheGpusAreSharedUnequally) {
  JointModel model(2, {{kJoint, 30, {0, 1}}, {kX, 10, {0}}, {kY, 70, {1}}});
  model.run(kMeasured);
  EXPECT_NEAR(model.percent_of(kY), 70, 1);
  EXPECT_NEAR(model.percent_of(kJoint), 30, 1);
  EXPECT_NEAR(model.percent_of(kX), 70, 1) << "it has what the joint allocation cannot use";
}

TEST(JointTurns, AllocationsOnTheSameGpusDoNotWaitForEachOtherForEver) {
  JointModel model(3, {{kA, 30, {0, 1, 2}}, {kB, 30, {1, 2}}, {kC, 30, {0, 2}}, {kD, 10, {1}}});
  model.run(kMeasured);
  EXPECT_LT(model.longest_wait(), 300'000);
  for (auto& id : {kA, kB, kC}) EXPECT_GE(model.percent_of(id), 20) << id.allocation;
}

// Each comes second on one of its GPUs, again and again.
TEST(JointTurns, AllocationsThatOverlapInARingGoOn) {
  JointModel model(3, {{kA, 50, {0, 1}}, {kB, 50, {1, 2}}, {kC, 50, {0, 2}}});
  model.run(kMeasured);
  EXPECT_LT(model.longest_wait(), 300'000);
  for (auto& id : {kA, kB, kC}) EXPECT_NEAR(model.percent_of(id), 33, 3) << id.allocation;
}

// What happens without them: each of two allocations gets one of the GPUs and waits for the other.
TEST(JointTurns, ModelNoticesTurnsThatAreGivenOneByOne) {
  std::vector<Arbiter> gpus(2);
  for (auto& gpu : gpus)
    for (auto& id : {kA, kB}) gpu.set_share(id, {ComputeMode::shared, 50}, 0);
  gpus[0].drained(kA, true, 0);
  gpus[1].drained(kA, false, 0);
  gpus[1].want(kB, 0);
  gpus[0].want(kB, 0);
  gpus[1].want(kA, 0);
  Microseconds both = Arbiter::kTurn + Arbiter::kDrain - 1;
  for (auto& gpu : gpus) gpu.advance(both);
  ASSERT_EQ(gpus[0].holder(), kA);
  ASSERT_EQ(gpus[1].holder(), kB);
  EXPECT_FALSE(joint_turns::is_ready({kA, {&gpus[0], &gpus[1]}}));
  EXPECT_FALSE(joint_turns::is_ready({kB, {&gpus[0], &gpus[1]}}));
}

}  // namespace
}  // namespace busbar::launcher

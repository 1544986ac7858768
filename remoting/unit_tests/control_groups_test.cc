// Control groups of cages.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "spawner/control_groups.h"

using busbar::spawner::ControlGroups;

namespace {
constexpr uint64_t kMemoryBytes = 64 << 20, kAllMemoryBytes = 1ull << 40;

std::string path_of(int fd) {
  char path[4096] = {};
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), path, sizeof path - 1) > 0 ? path : "";
}

std::set<std::string> take_groups(ControlGroups& groups) {
  std::set<std::string> paths;
  for (int fd : groups.create("1")) {
    paths.insert(path_of(fd));
    close(fd);
  }
  return paths;
}

TEST(ControlGroups, NextSpawnerWithTheSamePidDoesNotShareGroups) {
  ControlGroups first(kMemoryBytes, kAllMemoryBytes);
  if (!first.available()) GTEST_SKIP() << "no control group of this process permits groups in it";
  auto of_first = take_groups(first);
  ControlGroups second(kMemoryBytes, kAllMemoryBytes);
  auto of_second = take_groups(second);
  EXPECT_FALSE(of_first.empty());
  EXPECT_EQ(of_first.size(), of_second.size());
  for (auto& path : of_second) EXPECT_FALSE(of_first.count(path)) << path;
  second.remove_empty();
}

// Returns the limits of the groups in which a cage has its groups.
std::set<uint64_t> common_limits(ControlGroups& groups) {
  std::set<uint64_t> limits;
  for (auto& procs : take_groups(groups)) {
    std::string parent = procs.substr(0, procs.find("/busbar-cages") + sizeof "/busbar-cages" - 1);
    for (auto* name : {"/memory.max", "/memory.limit_in_bytes"})
      if (uint64_t bytes = 0; std::ifstream(parent + name) >> bytes) limits.insert(bytes);
  }
  groups.remove_empty();
  return limits;
}

TEST(ControlGroups, AllCagesTogetherHaveALimitOfMemory) {
  ControlGroups groups(kMemoryBytes, kAllMemoryBytes);
  if (!groups.available()) GTEST_SKIP() << "no control group of this process permits groups in it";
  constexpr int kAttempts = 10;  // another spawner of this machine may set its own meanwhile
  bool found = false;
  for (int i = 0; i < kAttempts && !found; ++i)
    found = common_limits(groups) == std::set<uint64_t>{kAllMemoryBytes} &&
            groups.common_memory_limit() == kAllMemoryBytes;
  EXPECT_TRUE(found);
}
}  // namespace

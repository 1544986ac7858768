// Control groups of cages.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "spawner/control_groups.h"

using busbar::spawner::ControlGroups;

namespace {
constexpr uint64_t kMemoryBytes = 64 << 20;

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
  ControlGroups first(kMemoryBytes);
  if (!first.available()) GTEST_SKIP() << "no control group of this process permits groups in it";
  auto of_first = take_groups(first);
  ControlGroups second(kMemoryBytes);
  auto of_second = take_groups(second);
  EXPECT_FALSE(of_first.empty());
  EXPECT_EQ(of_first.size(), of_second.size());
  for (auto& path : of_second) EXPECT_FALSE(of_first.count(path)) << path;
  second.remove_empty();
}
}  // namespace

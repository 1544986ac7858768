// The descriptors of arbiters end with them.
#include <gtest/gtest.h>

#include <filesystem>

#include "unit_tests/arbiters_client.h"

namespace busbar::launcher {
namespace {

auto open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(ArbitersDescriptors, AreClosedWhenTheArbitersEnd) {
  auto before = open_descriptors();
  {
    Arbiters arbiters;
    arbiters.set_allocation("a", allocation_of(50));
    Client a(arbiters, {"a", {1}});
    EXPECT_EQ(open_descriptors(), before + 5) << "two sockets, a page, a timer and their epoll";
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace busbar::launcher

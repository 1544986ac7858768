#include "launcher/refusal_log.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace busbar::launcher {
namespace {

std::string logged(RefusalLog& log, int refusals, int64_t now_ms,
                   const std::string& network = "stranger") {
  testing::internal::CaptureStderr();
  for (int i = 0; i < refusals; ++i)
    log.add(network, network + ":1", "the ticket is invalid", now_ms);
  return testing::internal::GetCapturedStderr();
}

int64_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(RefusalLog, FloodOfRefusalsMakesFewLines) {
  RefusalLog log;
  EXPECT_EQ(lines(logged(log, 100'000, 1)), kFirstRefusalsOfNetwork.burst + kRefusals.burst);
  EXPECT_EQ(lines(logged(log, 1000, 1 + 10 * kRefusals.interval_ms)), 10);
}

TEST(RefusalLog, NextLineNamesTheNumberOfOmittedOnes) {
  RefusalLog log;
  logged(log, (int)(kFirstRefusalsOfNetwork.burst + kRefusals.burst) + 5, 1);
  EXPECT_NE(logged(log, 1, 1 + kRefusals.interval_ms).find("5 other refusals were not logged"),
            std::string::npos);
  EXPECT_EQ(logged(log, 1, 1 + 2 * kRefusals.interval_ms).find("other refusals"),
            std::string::npos);
}

TEST(RefusalLog, FloodFromOtherNetworksDoesNotHideARefusal) {
  RefusalLog log;
  logged(log, 100'000, 1);
  EXPECT_NE(logged(log, 1, 1, "home").find("home:1: the ticket is invalid"), std::string::npos);
}

TEST(RefusalLog, FloodFromManyNetworksMakesFewLines) {
  RefusalLog log;
  int64_t count = 0;
  for (int i = 0; i < 1000; ++i) count += lines(logged(log, 1, 1, std::to_string(i)));
  EXPECT_EQ(count, kFirstRefusals.burst + kRefusals.burst);
}

}  // namespace
}  // namespace busbar::launcher

#include "launcher/refusal_log.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace busbar::launcher {
namespace {

std::string logged(RefusalLog& log, int refusals, int64_t now_ms) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < refusals; ++i) log.add("client", "the ticket is invalid", now_ms);
  return testing::internal::GetCapturedStderr();
}

int64_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(RefusalLog, FloodOfRefusalsMakesFewLines) {
  RefusalLog log;
  EXPECT_EQ(lines(logged(log, 100'000, 1)), kRefusalBurst);
  EXPECT_EQ(lines(logged(log, 1000, 1 + 10 * kRefusalMs)), 10);
}

TEST(RefusalLog, NextLineNamesTheNumberOfOmittedOnes) {
  RefusalLog log;
  logged(log, kRefusalBurst + 5, 1);
  EXPECT_NE(logged(log, 1, 1 + kRefusalMs).find("5 other refusals were not logged"),
            std::string::npos);
  EXPECT_EQ(logged(log, 1, 1 + 2 * kRefusalMs).find("other refusals"), std::string::npos);
}

}  // namespace
}  // namespace busbar::launcher

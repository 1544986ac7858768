#include "control/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <regex>

namespace busbar::control {
namespace {

std::string line_of(const char* format, const std::string& object) {
  setenv(kLogFormat, format, 1);
  testing::internal::CaptureStderr();
  log_line("launcher", "refused", object, "closed");
  unsetenv(kLogFormat);
  return testing::internal::GetCapturedStderr();
}

TEST(LogLine, TextHasTheTime) {
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z launcher: refused: a: closed\n)");
  EXPECT_TRUE(std::regex_match(line_of("text", "a"), form));
}

TEST(LogLine, ControlCharactersAreEscaped) {
  EXPECT_EQ(line_of("plain", "a\nb\x1b\xff"), "launcher: refused: a\\x0ab\\x1b\\xff: closed\n");
}

TEST(LogLine, JsonIsOneObject) {
  const std::regex form(
      R"re(\{"time":"[^"]*Z","level":"INFO","logger":"launcher","message":"refused: a\\"\\\\x0ab: closed"\}\n)re");
  EXPECT_TRUE(std::regex_match(line_of("json", "a\"\nb"), form)) << line_of("json", "a\"\nb");
}

}  // namespace
}  // namespace busbar::control

// The reason of a session's end, from an exit status as of wait(2) and from what was noted before.
#include "launcher/end_reason.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <string>

#include "control/messages.h"
#include "control/session_ends.h"

namespace busbar::launcher {
namespace {

using control::SessionEnd;

int exited(SessionEnd end) {
  return (int)end << 8;
}

TEST(EndReasonTest, SessionThatEndsByItselfKeepsItsReasonAfterARelease) {
  EXPECT_EQ(reason_of_end(exited(SessionEnd::closed), control::kReleased), "the client closed it");
  EXPECT_EQ(reason_of_end(exited(SessionEnd::malformed), control::kReleased),
            "the client sent a malformed record");
}

TEST(EndReasonTest, SessionThatWasToldOrKilledHasTheReasonOfTheLauncher) {
  EXPECT_EQ(reason_of_end(exited(SessionEnd::told), control::kReleased), control::kReleased);
  EXPECT_EQ(reason_of_end(SIGKILL, control::kReleased), control::kReleased);
  EXPECT_EQ(reason_of_end({}, control::kReleased), control::kReleased);
}

TEST(EndReasonTest, EndWithoutAReasonShowsTheStatus) {
  EXPECT_EQ(reason_of_end(SIGKILL, ""), "the session server was ended by signal Killed");
  EXPECT_EQ(reason_of_end(exited(SessionEnd::told), ""),
            "the session server ended with code 5; see the launcher's log");
  EXPECT_EQ(reason_of_end(99 << 8, ""),
            "the session server ended with code 99; see the launcher's log");
  EXPECT_EQ(reason_of_end({}, ""), control::kEnded);
}

TEST(EndReasonTest, AllReasonsDifferAndFitIntoTheRecordOfASession) {
  std::set<std::string> seen;
  for (int code = 0; code < 256; ++code) {
    std::string reason = reason_of_end(code << 8, "");
    EXPECT_LT(reason.size(), sizeof control::SessionRecord::reason);
    EXPECT_TRUE(seen.insert(reason).second) << reason;
  }
}

}  // namespace
}  // namespace busbar::launcher

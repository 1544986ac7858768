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

TEST(EndReasonTest, ReasonOfTheLauncherCountsWhateverTheSessionTells) {
  const std::string noted = "it was killed: its session server made the system call ptrace";
  for (int code = 0; code < 256; ++code) EXPECT_EQ(reason_of_end(code << 8, noted, true), noted);
  EXPECT_EQ(reason_of_end(SIGKILL, noted, true), noted);
  EXPECT_EQ(reason_of_end({}, noted, true), noted);
}

TEST(EndReasonTest, SessionThatEndsByItselfTellsWhy) {
  EXPECT_EQ(reason_of_end(exited(SessionEnd::closed), "", true), "the client closed it");
  EXPECT_EQ(reason_of_end(exited(SessionEnd::malformed), "", true),
            "the client sent a malformed record");
}

TEST(EndReasonTest, SessionThatHasStartedCannotTellThatItsStartFailed) {
  for (SessionEnd end : {SessionEnd::start_failed, SessionEnd::node_failed}) {
    EXPECT_EQ(reason_of_end(exited(end), "", false), control::reason_of((int)end));
    EXPECT_EQ(reason_of_end(exited(end), "", true), "the session server ended with code " +
                                                        std::to_string((int)end) +
                                                        "; see the launcher's log");
  }
}

TEST(EndReasonTest, EndWithoutAReasonShowsTheStatus) {
  EXPECT_EQ(reason_of_end(SIGKILL, "", true), "the session server was ended by signal Killed");
  EXPECT_EQ(reason_of_end(exited(SessionEnd::told), "", true),
            "the session server ended with code 5; see the launcher's log");
  EXPECT_EQ(reason_of_end(99 << 8, "", true),
            "the session server ended with code 99; see the launcher's log");
  EXPECT_EQ(reason_of_end({}, "", true), control::kEnded);
}

TEST(EndReasonTest, AllReasonsDifferAndFitIntoTheRecordOfASession) {
  std::set<std::string> seen;
  for (int code = 0; code < 256; ++code) {
    std::string reason = reason_of_end(code << 8, "", false);
    EXPECT_LT(reason.size(), sizeof control::SessionRecord::reason);
    EXPECT_TRUE(seen.insert(reason).second) << reason;
  }
}

}  // namespace
}  // namespace busbar::launcher

#include "spawner/session_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace busbar::spawner {
namespace {

class SessionOutputTest : public testing::Test {
 protected:
  SessionOutputTest() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC | O_NONBLOCK), 0);
    output_.add(pipe_[0], 7);
  }
  ~SessionOutputTest() override { close(pipe_[1]); }
  void print(const std::string& text) const { (void)!write(pipe_[1], text.data(), text.size()); }
  // Reads once what is ready. Returns false if nothing is.
  bool read() {
    std::vector<pollfd> waits;
    output_.append_to(waits);
    if (poll(waits.data(), waits.size(), 0) <= 0) return false;
    output_.read(waits);
    return true;
  }
  std::string logged(int reads) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < reads; ++i) read();
    return testing::internal::GetCapturedStderr();
  }
  int pipe_[2] = {-1, -1};
  SessionOutput output_;
};

TEST_F(SessionOutputTest, LinesHaveThePid) {
  print("one\ntw");
  EXPECT_NE(logged(1).find("spawner: session output: pid 7: one\n"), std::string::npos);
  print("o\n");
  EXPECT_NE(logged(1).find(": pid 7: two\n"), std::string::npos);
}

TEST_F(SessionOutputTest, IncompleteLineIsLoggedAtTheEnd) {
  print("last");
  EXPECT_EQ(logged(1), "");
  close(pipe_[1]);
  EXPECT_NE(logged(1).find(": pid 7: last\n"), std::string::npos);
  EXPECT_FALSE(read());
}

TEST_F(SessionOutputTest, LongLineIsCutInPieces) {
  print(std::string(3000, 'x') + "\n");
  std::string log = logged(1);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3);
}

TEST_F(SessionOutputTest, FloodOfShortLinesIsBoundedAlsoAtTheEnd) {
  for (int i = 0; i < 100; ++i) print(std::string(100, 'x') + std::string(400, '\n') + "y\n");
  close(pipe_[1]);
  std::string log = logged(100);
  EXPECT_LT(log.size(), 32u << 10);
  EXPECT_FALSE(read());
}

TEST_F(SessionOutputTest, FloodIsReadUpToTheBudgetOnly) {
  std::string log;
  for (int i = 0; i < 100; ++i) {
    print(std::string(4000, 'x') + "\n");
    log += logged(1);
  }
  EXPECT_GT(log.size(), 8u << 10);
  EXPECT_LT(log.size(), 32u << 10);
  EXPECT_FALSE(read());
}

}  // namespace
}  // namespace busbar::spawner

// Requests to session servers, of which one is silent.
#include "launcher/session_requests.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

constexpr int kTimeoutMs = 2000;  // the silent one takes all of it; the other one answers earlier

// The control socket of a session server of this process.
struct Server {
  explicit Server(const std::string& file)
      : address{file, getpid()}, listener(control::listen_at(file.c_str())) {}
  ~Server() {
    close(listener);
    unlink(address.path.c_str());
  }
  void answer(const control::SessionStatus& status) const {
    int fd = accept(listener, nullptr, nullptr);
    control::Header h;
    EXPECT_TRUE(control::receive_message(fd, h, nullptr, 0));
    EXPECT_EQ(h.kind, (uint32_t)control::Kind::status);
    EXPECT_TRUE(control::send_message(fd, control::Kind::ok, &status, sizeof status));
    close(fd);
  }
  const SessionAddress address;
  const int listener;
};

TEST(SessionRequests, StatusIsReadThoughSessionsBeforeItAreSilentOrGone) {
  server::TemporaryFolder folder;
  Server silent(folder.path() + "/silent"), honest(folder.path() + "/honest");
  std::thread answers([&] { honest.answer({1, 2, 3}); });
  std::vector<StatusQuery> queries = {
      {"a", {folder.path() + "/gone", getpid()}}, {"b", silent.address}, {"c", honest.address}};
  read_statuses(queries, kTimeoutMs);
  answers.join();
  EXPECT_FALSE(queries[0].has_answered);
  EXPECT_FALSE(queries[1].has_answered);
  ASSERT_TRUE(queries[2].has_answered);
  EXPECT_EQ(queries[2].status.launches, 3u);
}

}  // namespace
}  // namespace busbar::launcher

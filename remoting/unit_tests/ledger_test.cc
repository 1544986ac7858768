// Ledger: limits, several sessions, restarts of the launcher, and requests that break the protocol.
#include "launcher/ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <random>

#include "unit_tests/paused_process.h"
#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using control::LedgerAnswer;
using control::LedgerOp;
using control::LedgerRequest;
using server::TemporaryFolder;

constexpr uint64_t kLedgerLimit = 1000;
constexpr uint64_t kLimits[2] = {kLedgerLimit, 2 * kLedgerLimit};
constexpr uint64_t kContexts[2] = {100, 0};

SessionId id_of(uint8_t n) {
  return {n};
}

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    restart();
    add(1);
  }

  // As a new launcher does.
  void restart() {
    ledger = Ledger::open(folder.ledger());
    ledger->set_limits(kLimits, 2);
  }
  bool add(uint8_t session) {
    return ledger->add(id_of(session), server.pid(), session, server.pidfd());
  }
  // Sends the next request of a session.
  bool reserve(uint32_t partition, uint64_t bytes, uint8_t session = 1) {
    LedgerAnswer a{};
    return send({++sequence[session], (uint32_t)LedgerOp::reserve, partition, bytes, {}}, a,
                session) &&
           a.granted;
  }
  bool release(uint32_t partition, uint64_t bytes, uint8_t session = 1) {
    LedgerAnswer a{};
    return send({++sequence[session], (uint32_t)LedgerOp::release, partition, bytes, {}}, a,
                session);
  }
  bool open_context(uint32_t partition, uint8_t session = 1) {
    LedgerAnswer a{};
    return send({++sequence[session], (uint32_t)LedgerOp::open_context, partition, 0, {}}, a,
                session) &&
           a.granted;
  }
  bool refuse_call(const std::string& name) {
    LedgerRequest r{++sequence[1], (uint32_t)LedgerOp::refused_call, 0, 0, {}};
    std::copy(name.begin(), name.end(), r.name);
    LedgerAnswer a{};
    return send(r, a);
  }
  bool send(const LedgerRequest& r, LedgerAnswer& a, uint8_t session = 1) {
    return ledger->apply(id_of(session), r, a);
  }

  TemporaryFolder folder;
  PausedProcess server;
  std::unique_ptr<Ledger> ledger;
  std::map<uint8_t, uint64_t> sequence;
};

TEST_F(LedgerTest, ChargeUpToTheLimitSucceeds) {
  EXPECT_TRUE(reserve(0, kLedgerLimit));
  EXPECT_EQ(ledger->charged(0), kLedgerLimit);
  EXPECT_EQ(ledger->charged_by(id_of(1))[0], kLedgerLimit);
}

TEST_F(LedgerTest, ChargeOverTheLimitIsRejectedWhole) {
  EXPECT_TRUE(reserve(0, kLedgerLimit - 1));
  EXPECT_FALSE(reserve(0, 2));
  EXPECT_EQ(ledger->charged(0), kLedgerLimit - 1);
  EXPECT_FALSE(reserve(0, ~0ull)) << "the sum overflowed";
  EXPECT_TRUE(reserve(0, 1));
}

TEST_F(LedgerTest, PartitionsHaveSeparateLimits) {
  EXPECT_TRUE(reserve(0, kLedgerLimit));
  EXPECT_TRUE(reserve(1, 2 * kLedgerLimit));
  EXPECT_FALSE(reserve(1, 1));
  EXPECT_FALSE(reserve(2, 1)) << "there are two partitions";
}

TEST_F(LedgerTest, ReleaseNeverGoesBelowZero) {
  reserve(0, 10);
  release(0, 500);
  EXPECT_EQ(ledger->charged(0), 0u);
  EXPECT_TRUE(reserve(0, kLedgerLimit));
  EXPECT_FALSE(reserve(0, 1));
}

TEST_F(LedgerTest, ContextOfOneSessionIsKeptOutOfTheOffer) {
  ledger->set_limits(kLimits, 2, kContexts);
  EXPECT_FALSE(reserve(0, kLedgerLimit - 99));
  EXPECT_TRUE(reserve(0, kLedgerLimit - 100));
  EXPECT_TRUE(open_context(0));
  EXPECT_TRUE(reserve(1, 2 * kLedgerLimit)) << "no context of the other partition takes memory";
  EXPECT_FALSE(open_context(2)) << "there are two partitions";
}

TEST_F(LedgerTest, ContextOfAnotherSessionNeedsFreeMemory) {
  ledger->set_limits(kLimits, 2, kContexts);
  add(2);
  reserve(0, kLedgerLimit - 150);
  EXPECT_TRUE(open_context(0));
  EXPECT_TRUE(open_context(0)) << "it has one";
  EXPECT_FALSE(open_context(0, 2)) << "it waits for unused memory of the other session";
  --sequence[2];
  release(0, 50);
  EXPECT_TRUE(open_context(0, 2));
  EXPECT_FALSE(reserve(0, 1));
  ledger->end(id_of(2));
  EXPECT_TRUE(reserve(0, 100));
  EXPECT_FALSE(reserve(0, 1));
}

TEST_F(LedgerTest, ContextsSurviveARestart) {
  ledger->set_limits(kLimits, 2, kContexts);
  add(2);
  EXPECT_TRUE(open_context(0) && open_context(0, 2));
  restart();
  ledger->set_limits(kLimits, 2, kContexts);
  EXPECT_FALSE(reserve(0, kLedgerLimit - 199));
  EXPECT_TRUE(reserve(0, kLedgerLimit - 200));
}

TEST_F(LedgerTest, PageShowsTheOfferAndFurtherContexts) {
  ledger->set_limits(kLimits, 2, kContexts);
  add(2);
  auto* page = (const control::LedgerPage*)mmap(nullptr, sizeof(control::LedgerPage), PROT_READ,
                                                MAP_SHARED, ledger->page_descriptor(), 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(page->limit_bytes[0], kLedgerLimit - 100);
  open_context(0);
  EXPECT_EQ(page->further_context_bytes[0], 0u);
  open_context(0, 2);
  EXPECT_EQ(page->further_context_bytes[0], 100u);
  ledger->end(id_of(1));
  EXPECT_EQ(page->further_context_bytes[0], 0u);
}

TEST_F(LedgerTest, LoweredLimitRejectsNewChargesOnly) {
  reserve(0, 600);
  uint64_t lower[2] = {500, 500};
  ledger->set_limits(lower, 2);
  EXPECT_FALSE(reserve(0, 1));
  EXPECT_EQ(ledger->charged(0), 600u);
}

TEST_F(LedgerTest, HoldingHasTheContextsAndStaysAboveALoweredLimit) {
  ledger->set_limits(kLimits, 2, kContexts);
  add(2);
  EXPECT_EQ(ledger->held(0), 0u) << "no session has a context";
  open_context(0);
  open_context(0, 2);
  reserve(0, 600);
  EXPECT_EQ(ledger->held(0), 800u);
  uint64_t lower[2] = {500, 500};
  ledger->set_limits(lower, 2, kContexts);
  EXPECT_EQ(ledger->held(0), 800u);
  EXPECT_FALSE(reserve(0, 1));
  release(0, 400);
  EXPECT_EQ(ledger->held(0), 400u);
  EXPECT_TRUE(reserve(0, 100));
  EXPECT_FALSE(reserve(0, 1));
}

TEST_F(LedgerTest, SessionsShareTheLimitAndNotTheirCharges) {
  add(2);
  EXPECT_TRUE(reserve(0, 700, 2));
  EXPECT_FALSE(reserve(0, 301));
  release(0, 700);
  EXPECT_EQ(ledger->charged(0), 700u) << "a session released what another one had charged";
}

TEST_F(LedgerTest, ChargeOfADeadSessionIsReleasedWhenItIsNeeded) {
  PausedProcess other;
  ASSERT_TRUE(ledger->add(id_of(2), other.pid(), 2, other.pidfd()));
  EXPECT_TRUE(reserve(0, 700, 2));
  EXPECT_FALSE(reserve(0, 301));
  other.end();
  EXPECT_TRUE(reserve(0, 301));
}

TEST_F(LedgerTest, ChargesSurviveARestartAndARepeatedRequestIsAppliedOnce) {
  reserve(0, 400);
  restart();
  EXPECT_EQ(ledger->charged(0), 400u);
  ASSERT_TRUE(add(1));
  LedgerAnswer again{};
  EXPECT_TRUE(send({1, (uint32_t)LedgerOp::reserve, 0, 400, {}}, again));
  EXPECT_TRUE(again.granted);
  EXPECT_EQ(ledger->charged(0), 400u);
}

TEST_F(LedgerTest, RefusedRequestIsRefusedAgainThoughMemoryIsFreeNow) {
  reserve(0, kLedgerLimit);
  add(2);
  EXPECT_FALSE(reserve(0, 1, 2));
  release(0, kLedgerLimit);
  LedgerAnswer again{};
  EXPECT_TRUE(send({1, (uint32_t)LedgerOp::reserve, 0, 1, {}}, again, 2));
  EXPECT_FALSE(again.granted) << "the session may have read the first answer";
}

TEST_F(LedgerTest, UnknownSessionsOfTheFileAreRemoved) {
  reserve(0, 400);
  restart();
  ledger->remove_others([](auto&) { return false; });
  EXPECT_EQ(ledger->charged(0), 0u);
  EXPECT_TRUE(ledger->empty());
}

TEST_F(LedgerTest, RequestThatBreaksTheProtocolChangesNothing) {
  reserve(0, 400);
  auto op = (uint32_t)LedgerOp::reserve;
  LedgerAnswer a{};
  const LedgerRequest broken[] = {
      {0, op, 0, 1, {}},     {3, op, 0, 1, {}},
      {~0ull, op, 0, 1, {}}, {2, op, wire::kMaxDevices, 1, {}},
      {2, op, ~0u, 1, {}},   {2, 0, 0, 1, {}},
      {2, 11, 0, 1, {}},
  };
  for (auto& request : broken) EXPECT_FALSE(send(request, a));
  EXPECT_FALSE(send({1, op, 0, 1, {}}, a, 9)) << "an unknown session";
  EXPECT_EQ(ledger->charged(0), 400u);
  EXPECT_TRUE(reserve(0, 600));
}

TEST_F(LedgerTest, RequestThatCannotBeWrittenChangesNothing) {
  rlimit before{}, none{0, 0};
  getrlimit(RLIMIT_FSIZE, &before);
  none.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  EXPECT_FALSE(reserve(0, 400));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(ledger->charged(0), 0u);
}

TEST_F(LedgerTest, RefusedCallsAreRecordedOnceAndOutliveTheSession) {
  refuse_call("cuFoo");
  refuse_call("cuBar");
  refuse_call("cuFoo");
  ledger->end(id_of(1));
  EXPECT_EQ(ledger->refused_calls(id_of(1)), "cuFoo cuBar");
  ledger->remove(id_of(1));
  EXPECT_EQ(ledger->refused_calls(id_of(1)), "");
}

TEST_F(LedgerTest, RefusedCallsThatDoNotFitAreLeftOut) {
  std::string fitting = "cuCall0";
  for (int i = 0; i < 100; ++i) {
    std::string name = "cuCall" + std::to_string(i);
    refuse_call(name);
    if (i && fitting.size() + 1 + name.size() < control::kRefusedCallBytes) fitting += " " + name;
  }
  EXPECT_EQ(ledger->refused_calls(id_of(1)), fitting);
}

TEST_F(LedgerTest, SessionsBeyondTheLimitAreRejectedUntilOneEnds) {
  for (uint32_t i = 1; i < control::kLedgerSessions; ++i)
    ASSERT_TRUE(ledger->add({9, (uint8_t)(i >> 8), (uint8_t)i}, server.pid(), 1, server.pidfd()));
  EXPECT_FALSE(add(2));
  ledger->end(id_of(1));
  EXPECT_TRUE(add(2));
}

TEST_F(LedgerTest, FileOfAnotherLayoutIsReadAsEmpty) {
  ledger = nullptr;
  int fd = open(folder.ledger().c_str(), O_RDWR);
  std::string garbage(100'000, '\xff');
  ASSERT_EQ(pwrite(fd, garbage.data(), garbage.size(), 0), (ssize_t)garbage.size());
  close(fd);
  restart();
  EXPECT_TRUE(ledger->empty());
  EXPECT_EQ(ledger->charged(0), 0u);
}

TEST_F(LedgerTest, FileIsPrivate) {
  struct stat st;
  ASSERT_EQ(stat(folder.ledger().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0600u);
}

TEST_F(LedgerTest, PageCannotBeWrittenThroughItsDescriptor) {
  int fd = ledger->page_descriptor();
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  int reopened = open(path.c_str(), O_RDWR);
  for (int page : {fd, reopened}) {
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0), MAP_FAILED);
    EXPECT_LT(write(page, "x", 1), 0);
    EXPECT_LT(ftruncate(page, 0), 0);
    EXPECT_LT(fallocate(page, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  }
  close(reopened);
}

// ---- random operations against a model ----

// The expected content of the ledger.
struct LedgerModel {
  std::map<uint8_t, std::array<uint64_t, 2>> charged;
  uint64_t total(uint32_t partition) const {
    uint64_t sum = 0;
    for (auto& [session, bytes] : charged) sum += bytes[partition];
    return sum;
  }
};

// Returns true if the ledger agrees with the model after each of many random operations. `repeat`
// changes a request that is sent again; a planted bug changes its sequence number.
template <typename Repeat>
bool agrees_with_model(unsigned seed, Repeat repeat) {
  TemporaryFolder folder;
  PausedProcess server;
  std::mt19937 random(seed);
  LedgerModel model;
  std::map<uint8_t, uint64_t> sequence;
  std::unique_ptr<Ledger> ledger;
  auto restart = [&] {
    ledger = Ledger::open(folder.ledger());
    ledger->set_limits(kLimits, 2);
    for (auto& [session, bytes] : model.charged)
      ledger->add(id_of(session), server.pid(), session, server.pidfd());
  };
  auto request = [&](uint8_t session) {
    LedgerOp op = random() % 2 ? LedgerOp::reserve : LedgerOp::release;
    uint32_t partition = (uint32_t)random() % 2;
    uint64_t bytes = random() % 600;
    uint64_t& held = model.charged[session][partition];
    bool fits = bytes <= kLimits[partition] - model.total(partition);
    bool granted = op == LedgerOp::release || fits;
    LedgerRequest r{++sequence[session], (uint32_t)op, partition, bytes, {}};
    LedgerAnswer a{};
    bool ok = ledger->apply(id_of(session), r, a) && (a.granted != 0) == granted;
    if (random() % 4 == 0) {  // the answer is lost with the launcher
      restart();
      repeat(r, sequence[session]);
      ok = ok && ledger->apply(id_of(session), r, a) && (a.granted != 0) == granted;
    }
    if (op == LedgerOp::release)
      held -= std::min(held, bytes);
    else if (granted)
      held += bytes;
    return ok;
  };
  restart();
  for (int i = 0; i < 1000; ++i) {
    auto session = (uint8_t)(1 + random() % 5);
    if (!model.charged.count(session)) {
      model.charged[session] = {};
      sequence[session] = 0;
      ledger->add(id_of(session), server.pid(), session, server.pidfd());
    } else if (random() % 10 == 0) {
      model.charged.erase(session);
      ledger->remove(id_of(session));
      continue;
    }
    if (!request(session)) return false;
    for (uint32_t p = 0; p < 2; ++p)
      if (ledger->charged(p) != model.total(p)) return false;
  }
  return true;
}

TEST(LedgerModelTest, RandomOperationsAgreeWithTheModel) {
  for (unsigned seed = 1; seed <= 10; ++seed)
    EXPECT_TRUE(agrees_with_model(seed, [](auto&, auto&) {})) << "seed " << seed;
}

TEST(LedgerModelTest, ModelNoticesARequestThatIsAppliedTwice) {
  EXPECT_FALSE(
      agrees_with_model(1, [](LedgerRequest& r, uint64_t& sequence) { r.sequence = ++sequence; }));
}

}  // namespace
}  // namespace busbar::launcher

// Completion fences: order of publication, errors, data and the background thread.
#include "server/completions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

constexpr uint32_t kFirst = 17, kSecond = 18;
constexpr auto kPatience = std::chrono::seconds(60);

// Events of the driver below: not ready, complete or failed. A query may complete another event.
struct FakeEvent {
  std::atomic<CUresult> state{CUDA_ERROR_NOT_READY};
  FakeEvent* completes_with_query = nullptr;
};

std::atomic<int> g_synchronizing{0};  // threads that wait for an event in the driver
std::atomic<int> g_queries{0};

class CompletionsTest : public testing::Test {
 protected:
  CompletionsTest() {
    t.cu.cuEventQuery = [](CUevent e) {
      auto* event = (FakeEvent*)e;
      ++g_queries;
      if (event->completes_with_query) event->completes_with_query->state = CUDA_SUCCESS;
      return event->state.load();
    };
    t.cu.cuEventSynchronize = [](CUevent e) {
      ++g_synchronizing;
      while (((FakeEvent*)e)->state == CUDA_ERROR_NOT_READY) std::this_thread::yield();
      --g_synchronizing;
      return CUDA_SUCCESS;
    };
  }

  static CompletionFence fence(uint32_t stream, uint64_t position, FakeEvent& event) {
    CompletionFence f;
    f.event = (CUevent)&event;
    f.context = 1;
    f.stream = stream;
    f.position = position;
    f.use = std::make_shared<StreamUse>();
    return f;
  }

  TestSession t;
  FakeEvent a, b, c;
  Completions completions{*t.session};
};

TEST_F(CompletionsTest, NothingIsPublishedBeforeTheEventCompletes) {
  completions.add(fence(kFirst, 100, a));
  completions.poll();
  EXPECT_TRUE(t.frames().empty());
  EXPECT_FALSE(completions.idle());
  a.state = CUDA_SUCCESS;
  completions.poll();
  EXPECT_EQ(t.completed_positions(), (std::vector<uint64_t>{100}));
  EXPECT_TRUE(completions.idle());
}

TEST_F(CompletionsTest, FencesOfAStreamArePublishedInOrder) {
  completions.add(fence(kFirst, 100, a));
  completions.add(fence(kFirst, 200, b));
  b.state = CUDA_SUCCESS;
  completions.poll();
  EXPECT_TRUE(t.completed_positions().empty()) << "a later fence overtook an earlier one";
  a.state = CUDA_SUCCESS;
  completions.poll();
  EXPECT_EQ(t.completed_positions(), (std::vector<uint64_t>{100, 200}));
}

TEST_F(CompletionsTest, StreamsCompleteIndependently) {
  completions.add(fence(kFirst, 100, a));
  completions.add(fence(kSecond, 200, b));
  b.state = CUDA_SUCCESS;
  completions.poll();
  EXPECT_EQ(t.completed_positions(), (std::vector<uint64_t>{200}));
}

TEST_F(CompletionsTest, LowestPositionIsPublishedFirst) {
  completions.add(fence(kFirst, 200, a));
  completions.add(fence(kSecond, 100, b));
  a.state = b.state = CUDA_SUCCESS;
  completions.poll();
  EXPECT_EQ(t.completed_positions(), (std::vector<uint64_t>{100, 200}));
}

// The second stream waited for the first one. Both complete between the two queries.
TEST_F(CompletionsTest, CauseThatCompletesDuringThePollIsPublishedBeforeItsEffect) {
  completions.add(fence(kFirst, 100, a));
  completions.add(fence(kSecond, 200, b));
  b.state = CUDA_SUCCESS;
  b.completes_with_query = &a;
  completions.poll();
  EXPECT_EQ(t.completed_positions(), (std::vector<uint64_t>{100, 200}));
}

TEST_F(CompletionsTest, FirstErrorIsPartOfEveryLaterCompletion) {
  completions.add(fence(kFirst, 100, a));
  completions.add(fence(kSecond, 200, b));
  a.state = CUDA_ERROR_ILLEGAL_ADDRESS;
  completions.poll();
  completions.fail(CUDA_ERROR_OUT_OF_MEMORY);
  completions.add(fence(kFirst, 300, c));
  completions.poll();
  std::map<uint64_t, uint32_t> errors;
  for (auto& f : t.frames()) errors[f.position()] = f.error();
  EXPECT_EQ(errors, (std::map<uint64_t, uint32_t>{{100, CUDA_ERROR_ILLEGAL_ADDRESS},
                                                  {200, CUDA_ERROR_ILLEGAL_ADDRESS},
                                                  {300, CUDA_ERROR_ILLEGAL_ADDRESS}}));
}

TEST_F(CompletionsTest, DataIsSentBeforeTheCompletionThatAnnouncesIt) {
  CompletionFence f = fence(kFirst, 100, a);
  PinnedBuffer buffer = t.staging(5);
  std::memcpy(buffer.data(), "hello", 5);
  f.deliveries.push_back({9, 0, std::move(buffer), 5});
  f.host_function = 3;
  completions.add(std::move(f));
  a.state = CUDA_SUCCESS;
  completions.poll();
  auto frames = t.frames();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].kind, wire::Frame::data);
  EXPECT_EQ(frames[0].field<uint64_t>(0), 9u);
  EXPECT_EQ(std::string(frames[0].body.end() - 5, frames[0].body.end()), "hello");
  EXPECT_EQ(frames[1].kind, wire::Frame::completion);
  EXPECT_EQ(frames[2].kind, wire::Frame::host_function);
  EXPECT_TRUE(t.pinned.unused()) << "the buffer was not returned";
}

TEST_F(CompletionsTest, DataIsNotSentAfterAnError) {
  CompletionFence f = fence(kFirst, 100, a);
  f.deliveries.push_back({9, 0, t.staging(5), 5});
  completions.add(std::move(f));
  a.state = CUDA_ERROR_LAUNCH_FAILED;
  completions.poll();
  auto frames = t.frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].error(), (uint32_t)CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(CompletionsTest, EventsOfPublishedFencesAreReused) {
  completions.add(fence(kFirst, 100, a));
  EXPECT_TRUE(completions.take_idle_events(1).empty());
  a.state = CUDA_SUCCESS;
  completions.poll();
  EXPECT_EQ(completions.take_idle_events(1), (std::vector<CUevent>{(CUevent)&a}));
  EXPECT_TRUE(completions.take_idle_events(1).empty());
}

TEST_F(CompletionsTest, BackgroundThreadPublishesWithoutPolls) {
  completions.add(fence(kFirst, 100, a));
  completions.add(fence(kSecond, 200, b));
  completions.watch_in_background(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  a.state = b.state = CUDA_SUCCESS;
  auto end = std::chrono::steady_clock::now() + kPatience;
  std::vector<uint64_t> positions;
  while (positions.size() < 2 && std::chrono::steady_clock::now() < end)
    for (uint64_t p : t.completed_positions()) positions.push_back(p);
  EXPECT_EQ(positions.size(), 2u);
}

// The work before the first fence may wait for the program, and the program for the second one.
TEST_F(CompletionsTest, FenceIsPublishedWhileTheThreadWaitsForAnotherInTheDriver) {
  completions.add(fence(kFirst, 100, a));
  completions.watch_in_background(false);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (!g_synchronizing && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(g_synchronizing) << "the thread did not reach the driver";
  b.state = CUDA_SUCCESS;
  completions.add(fence(kSecond, 200, b));
  completions.watch_in_background(false);
  while (!completions.progress() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(t.completed_positions(), (std::vector<uint64_t>{200}));
  a.state = CUDA_SUCCESS;
}

// On a small machine a thread that polls would take the processor from the software GPU.
TEST_F(CompletionsTest, ThreadWaitsInTheDriverAtOnceForWorkOfATurn) {
  static const std::atomic<uint32_t> turn{control::turn_word(1, control::TurnState::turn)};
  TurnGate gate{0, [](void*, const control::TurnNotice&) { return true; }, nullptr};
  gate.use(&turn);
  CompletionFence of_turn = fence(kFirst, 100, a);
  of_turn.gate = &gate;
  completions.add(std::move(of_turn));
  g_queries = 0;
  completions.watch_in_background(true);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (!g_synchronizing && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(g_synchronizing) << "the thread did not reach the driver";
  EXPECT_LT(g_queries, 10);
  a.state = CUDA_SUCCESS;
}

// Otherwise a program that is stopped would hold its turn, and the GPU would be idle.
TEST_F(CompletionsTest, WorkEndsForItsGateWhileTheClientReadsNothing) {
  static const std::atomic<uint32_t> turn{control::turn_word(1, control::TurnState::turn)};
  TurnGate gate{0, [](void*, const control::TurnNotice&) { return true; }, nullptr};
  gate.use(&turn);
  std::atomic<bool> stopped{false}, ended{false};
  std::thread sender([&] {
    std::vector<uint8_t> bytes(8 << 20);
    while (!stopped) t.link->send(wire::Frame::data, bytes.data(), bytes.size());
    ended = true;
  });
  while (!t.client->has_frames())
    std::this_thread::yield();  // the first one is longer than the ring
  a.state = b.state = CUDA_SUCCESS;
  completions.add(fence(kFirst, 100, a));
  completions.watch_in_background(true);
  CompletionFence with_work = fence(kSecond, 200, b);
  WorkBatch work;
  gate.add(work, 1);
  with_work.gate = &gate;
  with_work.work = gate.add_fence(work);
  completions.add(std::move(with_work));
  completions.watch_in_background(true);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (gate.has_fenced() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(gate.has_fenced());
  EXPECT_FALSE(completions.idle()) << "nothing is published";
  stopped = true;
  while (!completions.idle() || !ended) t.frames();
  sender.join();
}

}  // namespace
}  // namespace busbar::server

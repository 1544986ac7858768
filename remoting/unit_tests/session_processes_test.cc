// Which process a session gets, with a spawner that the test answers for.
#include "launcher/session_processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <vector>

#include "unit_tests/test_session.h"

namespace busbar::launcher {
namespace {

using namespace std::chrono_literals;
using control::SpawnOp;

control::Allocation allocation_of(uint8_t tenant, uint8_t gpu) {
  control::Allocation a{};
  a.tenant[0] = tenant;
  a.partitions = 1;
  a.partition[0].gpu_uuid[0] = gpu;
  return a;
}

// The socket of a spawner. Processes have the pids 1, 2, 3.
class Spawner {
 public:
  Spawner() : listener_(control::listen_at(socket().c_str())) {}
  ~Spawner() {
    close(listener_);
    unlink(socket().c_str());
  }
  const std::string& runtime() const { return folder_.path(); }

  // Blocks until a request arrives, and returns it. It waits for answer().
  control::SpawnRequest next() {
    connection_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    control::SpawnRequest request{};
    EXPECT_EQ(recv(connection_, &request, sizeof request, MSG_WAITALL), (ssize_t)sizeof request);
    pid_ = request.op == (uint32_t)SpawnOp::start ? ++started_ : request.pid;
    return request;
  }
  void answer() {
    control::SpawnReply reply{pid_, control::kSeccomp};
    EXPECT_EQ(send(connection_, &reply, sizeof reply, MSG_NOSIGNAL), (ssize_t)sizeof reply);
    close(connection_);
  }
  void serve(int requests) {
    for (; requests; --requests) {
      next();
      answer();
    }
  }

 private:
  std::string socket() const { return folder_.path() + control::kSpawnerSocket; }
  server::TemporaryFolder folder_;
  int listener_, connection_ = -1;
  uint32_t pid_ = 0, started_ = 0;
};

auto take(SessionProcesses& processes, uint8_t tenant, uint8_t gpu) {
  return std::async(std::launch::async,
                    [=, &processes] { return processes.take(allocation_of(tenant, gpu)); });
}

void wait_for(SessionProcesses& processes, size_t waiting) {
  while (processes.waiting() != waiting) std::this_thread::yield();
}

// Returns what start_spares() needs to start `count` spares of a GPU and no more.
auto spares_of(uint8_t gpu, int count) {
  return [left = std::make_shared<std::atomic<int>>(count), count, gpu] {
    size_t wanted = (*left)-- > 0 ? (size_t)count : 0;
    return std::map<GpuSet, size_t>{{gpus_of(allocation_of(0, gpu)), wanted}};
  };
}

TEST(SessionProcesses, SpareOutlivesARequestThatGetsNoTurn) {
  Spawner spawner;
  SessionProcesses processes(spawner.runtime(), 1ms);
  auto starting = std::async(std::launch::async, [&] { processes.start_spares(spares_of(1, 1)); });
  spawner.serve(1);
  starting.get();
  auto other = take(processes, 1, 2);
  spawner.next();  // the spawner is busy

  EXPECT_NE(processes.take(allocation_of(2, 1)).refusal, nullptr);

  spawner.answer();
  spawner.serve(1);
  other.get().close();
  auto later = take(processes, 2, 1);
  spawner.serve(1);
  SessionProcess process = later.get();
  EXPECT_EQ(process.pid, 1) << "the spare, which has stayed";
  EXPECT_GE(fcntl(process.fd, F_GETFD), 0);
  process.close();
}

TEST(SessionProcesses, SpareThatMayBePutBackIsNotReplaced) {
  Spawner spawner;
  SessionProcesses processes(spawner.runtime(), 60s);
  auto start_one = [&] {
    processes.start_spares(
        [] { return std::map<GpuSet, size_t>{{gpus_of(allocation_of(0, 1)), 1}}; });
  };
  auto first = std::async(std::launch::async, start_one);
  spawner.serve(1);
  first.get();
  auto other = take(processes, 1, 2);
  spawner.next();  // the spawner is busy
  auto late = take(processes, 2, 1);
  wait_for(processes, 1);  // it holds the spare, and may get no turn

  auto second = std::async(std::launch::async, start_one);
  while (second.wait_for(0s) != std::future_status::ready && processes.waiting() == 1)
    std::this_thread::yield();
  bool is_replaced = processes.waiting() > 1;
  EXPECT_FALSE(is_replaced);

  spawner.answer();
  spawner.serve(is_replaced ? 3 : 2);  // both open
  for (auto* request : {&other, &late}) request->get().close();
}

TEST(SessionProcesses, RequestsWaitLongerForASpareThatStartsThanForTheSpawner) {
  constexpr auto kPatience = 2s;
  Spawner spawner;
  SessionProcesses processes(spawner.runtime(), kPatience);
  auto starting = std::async(std::launch::async, [&] { processes.start_spares(spares_of(1, 1)); });
  spawner.next();
  auto first = take(processes, 1, 1), second = take(processes, 2, 1);
  EXPECT_EQ(first.wait_for(kPatience + 1s), std::future_status::timeout);
  EXPECT_EQ(second.wait_for(1s), std::future_status::timeout);

  spawner.answer();
  spawner.serve(3);  // the spare opens; a process starts, and opens
  for (auto* request : {&first, &second}) {
    SessionProcess process = request->get();
    EXPECT_EQ(process.refusal, nullptr);
    process.close();
  }
  starting.get();
}

TEST(SessionProcesses, SparesThatStartGoToTenantsInTurn) {
  constexpr size_t kOfBusy = 8;
  Spawner spawner;
  SessionProcesses processes(spawner.runtime(), 120s);
  auto wanted = spares_of(1, 2);
  std::vector<std::future<void>> starting;
  for (int i = 0; i < 2; ++i)
    starting.push_back(std::async(std::launch::async, [&] { processes.start_spares(wanted); }));
  spawner.next();
  wait_for(processes, 1);

  std::vector<std::future<SessionProcess>> of_busy;
  for (size_t i = 0; i < kOfBusy; ++i) of_busy.push_back(take(processes, 1, 1));
  wait_for(processes, kOfBusy);  // the other start, and all but the first of these
  auto calm = take(processes, 2, 1);
  wait_for(processes, kOfBusy + 1);
  spawner.answer();
  spawner.serve(1 + 2 + 2 * (kOfBusy - 1));  // a start, two spares that open, new processes

  SessionProcess process = calm.get();
  EXPECT_LE(process.pid, 2) << "one of the two spares";
  process.close();
  for (auto& p : of_busy) p.get().close();
  for (auto& s : starting) s.get();
}

}  // namespace
}  // namespace busbar::launcher

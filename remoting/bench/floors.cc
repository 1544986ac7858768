// Lower bounds for remoting on this machine: the raw transports without remoting.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "transport/tcp.h"
#include "transport/tls.h"

using namespace busbar::transport;

namespace {
constexpr int kPings = 3000, kCopies = 5;
constexpr size_t kBytes = 64u << 20, kChunk = 4u << 20;
constexpr int kChunks = 16;
double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Words {
  alignas(64) std::atomic<uint64_t> there;
  alignas(64) std::atomic<uint64_t> back;
  alignas(64) std::atomic<uint32_t> full[kChunks];
};

// Return the round-trip time between two processes that busy-wait on two words, in microseconds.
double spin_ping(Words* w) {
  pid_t child = fork();
  if (!child) {
    for (uint64_t i = 1; i <= kPings; ++i) {
      while (w->there.load() != i) __builtin_ia32_pause();
      w->back.store(i);
    }
    _exit(0);
  }
  std::vector<double> t;
  for (uint64_t i = 1; i <= kPings; ++i) {
    double a = now_us();
    w->there.store(i);
    while (w->back.load() != i) __builtin_ia32_pause();
    t.push_back(now_us() - a);
  }
  waitpid(child, nullptr, 0);
  return median(t);
}

// Return the throughput of two threads in GiB/s: one copies from memory to chunks, the other copies
// the chunks to memory.
double memory_stream(Words* w, uint8_t* chunks) {
  std::vector<uint8_t> data(kBytes);
  for (size_t i = 0; i < kBytes; ++i) data[i] = (uint8_t)(i * 2654435761u >> 13);
  pid_t child = fork();
  if (!child) {
    std::vector<uint8_t> to(kBytes);
    for (int r = 0; r < kCopies + 1; ++r)
      for (size_t at = 0; at < kBytes; at += kChunk) {
        auto& state = w->full[at / kChunk % kChunks];
        while (state.load(std::memory_order_acquire) != 1) __builtin_ia32_pause();
        std::memcpy(to.data() + at, chunks + at / kChunk % kChunks * kChunk, kChunk);
        state.store(0, std::memory_order_release);
      }
    _exit(0);
  }
  std::vector<double> t;
  for (int r = 0; r < kCopies + 1; ++r) {
    double a = now_us();
    for (size_t at = 0; at < kBytes; at += kChunk) {
      auto& state = w->full[at / kChunk % kChunks];
      while (state.load(std::memory_order_acquire) != 0) __builtin_ia32_pause();
      std::memcpy(chunks + at / kChunk % kChunks * kChunk, data.data() + at, kChunk);
      state.store(1, std::memory_order_release);
    }
    for (auto& state : w->full)
      while (state.load(std::memory_order_acquire) != 0) __builtin_ia32_pause();
    if (r) t.push_back(now_us() - a);  // the first pass faults the pages in
  }
  waitpid(child, nullptr, 0);
  return (double)kBytes / (1u << 30) / (median(t) / 1e6);
}

struct Pair {
  Tls client, server;
};

Pair connected() {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof a;
  if (bind(listener, (sockaddr*)&a, sizeof a) || listen(listener, 1) ||
      getsockname(listener, (sockaddr*)&a, &n))
    std::exit(1);
  std::string error;
  Secret key{};
  Pair p;
  int client = connect_tcp("127.0.0.1", ntohs(a.sin_port), 5000, error),
      server = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK), one = 1;
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::thread other([&] {
    std::string why;
    Tls::open_with_key(server, Role::server, key, 5000, p.server, why);
  });
  Tls::open_with_key(client, Role::client, key, 5000, p.client, error);
  other.join();
  close(listener);
  return p;
}

double tls_ping() {
  Pair p = connected();
  uint8_t message[64] = {};
  std::thread echo([&] {
    uint8_t m[64];
    for (int i = 0; i < kPings; ++i) {
      if (!p.server.read_all(m, sizeof m, 5000) || !p.server.write_all(m, sizeof m, 5000)) break;
    }
  });
  std::vector<double> t;
  for (int i = 0; i < kPings; ++i) {
    double a = now_us();
    p.client.write_all(message, sizeof message, 5000);
    p.client.read_all(message, sizeof message, 5000);
    t.push_back(now_us() - a);
  }
  echo.join();
  return median(t);
}

double tls_stream() {
  Pair p = connected();
  std::vector<uint8_t> data(kBytes);
  for (size_t i = 0; i < kBytes; ++i) data[i] = (uint8_t)(i * 2654435761u >> 13);
  std::thread sink([&] {
    std::vector<uint8_t> to(kBytes);
    uint8_t done = 1;
    for (int i = 0; i < kCopies; ++i) {
      if (!p.server.read_all(to.data(), kBytes, 20'000)) break;
      p.server.write_all(&done, 1, 5000);
    }
  });
  std::vector<double> t;
  for (int i = 0; i < kCopies; ++i) {
    double a = now_us();
    uint8_t done;
    p.client.write_all(data.data(), kBytes, 20'000);
    p.client.read_all(&done, 1, 20'000);
    t.push_back(now_us() - a);
  }
  sink.join();
  return (double)kBytes / (1u << 30) / (median(t) / 1e6);
}
}  // namespace

int main() {
  auto* memory = (uint8_t*)mmap(nullptr, 4096 + kChunks * kChunk, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  double ping = spin_ping((Words*)memory), stream = memory_stream((Words*)memory, memory + 4096);
  double wire_ping = tls_ping(), wire = tls_stream();
  std::printf(
      "{\"spin_ping_us\": %.3f, \"memory_stream_gib_s\": %.2f, \"tls_ping_us\": %.2f, "
      "\"tls_stream_gib_s\": %.2f}\n",
      ping, stream, wire_ping, wire);
  return 0;
}

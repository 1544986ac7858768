// Output of kernels that waits in the client, for a thread that uses stdout.
#include "client/kernel_output.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <future>
#include <string>
#include <thread>

namespace busbar::client {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint64_t kPieces = KernelOutput::kMostBytes / kPieceBytes;

// Adds pieces, which begin with 'a', 'b' and so on, while a thread holds stdout, and then writes
// them. Returns what standard output and standard error get.
std::pair<std::string, std::string> written(uint64_t pieces) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  KernelOutput output;
  std::promise<void> held, release;
  std::jthread user([&] {
    flockfile(stdout);
    held.set_value();
    release.get_future().wait();
    funlockfile(stdout);
  });
  held.get_future().wait();
  for (uint64_t i = 0; i < pieces; ++i) {
    std::string piece(kPieceBytes, '.');
    piece[0] = (char)('a' + i);
    output.add((const uint8_t*)piece.data(), piece.size());
  }
  release.set_value();
  output.flush();
  std::string out = testing::internal::GetCapturedStdout();
  return {out, testing::internal::GetCapturedStderr()};
}

TEST(KernelOutput, WaitsForAThreadThatUsesStdout) {
  auto [out, error] = written(kPieces);
  EXPECT_EQ(out.size(), KernelOutput::kMostBytes);
  EXPECT_EQ(out.substr(0, 2), "a.");
  EXPECT_EQ(error, "");
}

TEST(KernelOutput, LosesTheOldestBytesAndSaysHowMany) {
  auto [out, error] = written(kPieces + 3);
  EXPECT_EQ(out.size(), KernelOutput::kMostBytes);
  EXPECT_EQ(out.substr(0, 2), "d.");
  EXPECT_EQ(error, "busbar: 3145728 bytes that kernels printed are lost: stdout was in use\n");
}

}  // namespace
}  // namespace busbar::client

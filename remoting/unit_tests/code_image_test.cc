// Code images of clients: what a driver gets of them.
#include "server/code_image.h"

#include <gtest/gtest.h>

#include "images/fatbin.h"
#include "images/program_image.h"
#include "server/handlers.h"
#include "unit_tests/test_session.h"
#include "wire/encode.h"
#include "wire/jit_option.h"

namespace busbar::server {
namespace {

constexpr char kPtx[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
std::string g_seen;  // by the driver

struct Wrapper {
  uint32_t magic = images::kWrapperMagic, version = 1;
  uint64_t address = 0x1000;
  uint64_t reserved = 0;
};

std::string wrapper() {
  Wrapper w;
  return std::string((const char*)&w, sizeof w);
}

std::string fatbin_of(const std::string& entry) {
  return images::fatbin_header(entry.size()) + entry;
}

// Returns an entry with PTX that has `bytes` of payload and claims `claimed`.
std::string entry_of(const std::string& payload, uint64_t claimed) {
  std::string out(64, '\0');
  uint16_t kind = 1;
  uint32_t header = 64;
  std::memcpy(out.data(), &kind, sizeof kind);
  std::memcpy(out.data() + 4, &header, sizeof header);
  std::memcpy(out.data() + 8, &claimed, sizeof claimed);
  return out + payload;
}

class CodeImageTest : public testing::Test {
 protected:
  CodeImageTest() {
    g_seen.clear();
    t.cu.cuModuleLoadDataEx = [](CUmodule* m, const void* image, unsigned, CUjit_option*, void**) {
      g_seen = images::image_at(image);
      *m = nullptr;
      return CUDA_ERROR_INVALID_IMAGE;
    };
    t.cu.cuLinkAddData = [](CUlinkState, CUjitInputType, void* p, size_t n, const char*, unsigned,
                            CUjit_option*, void**) {
      g_seen.assign((const char*)p, n);
      return CUDA_ERROR_INVALID_IMAGE;
    };
  }
  // Sends a record that loads the image, and returns the status of the reply.
  uint32_t load(const std::string& image, uint32_t log_bytes = wire::kJitLogBytes) {
    wire::Encoder<4096> e(wire::Op::load_module, 1);
    uint8_t hash[32] = {};
    e.put<uint64_t>(7).put<uint32_t>(1).put<uint32_t>(1).put<uint64_t>(image.size());
    e.put<uint64_t>(0).put<uint64_t>(0).put<uint64_t>(0).put(log_bytes).put(log_bytes).raw(
        hash, sizeof hash);
    e.raw(image.data(), (uint32_t)image.size());
    handlers::load_module(*t.session, payload(e.finish(), e.size()));
    return status();
  }
  uint32_t link(CUjitInputType type, const std::string& image) {
    Chunk chunk(t.pinned.acquire_idle(image.size()), image.size());
    std::memcpy(chunk.data(), image.data(), image.size());
    t.bulk.add(++transfer, 0, std::move(chunk));
    wire::Encoder<4096> e(wire::Op::link, 1);
    e.put<uint64_t>(7).put<uint32_t>(1).put<uint32_t>(0);
    e.put(wire::kJitLogBytes).put(wire::kJitLogBytes).put((uint32_t)type).put<uint32_t>(0);
    e.put<uint64_t>(image.size()).put(transfer);
    handlers::link(*t.session, payload(e.finish(), e.size()));
    return status();
  }

  static wire::Decoder payload(const void* record, size_t bytes) {
    return {(const uint8_t*)record + sizeof(wire::RecordHeader),
            bytes - sizeof(wire::RecordHeader)};
  }
  uint32_t status() {
    for (auto& f : t.frames())
      if (f.kind == wire::Frame::reply) return f.field<uint32_t>(8);
    ADD_FAILURE() << "there is no reply";
    return 0;
  }

  TestSession t;
  uint64_t transfer = 0;
};

TEST_F(CodeImageTest, PointerOfAWrapperIsNotFollowed) {
  EXPECT_EQ(load(wrapper()), (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  for (int type = CU_JIT_INPUT_CUBIN; type <= CU_JIT_INPUT_NVVM; ++type)
    EXPECT_EQ(link((CUjitInputType)type, wrapper()), (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(fatbin_of(entry_of(wrapper(), sizeof(Wrapper)))),
            (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(g_seen, "") << "the driver must not see a wrapper";
}

TEST_F(CodeImageTest, LengthsBeyondTheImageAreRejected) {
  std::string padded = std::string(kPtx).append(3, '\0');
  EXPECT_EQ(load(fatbin_of(entry_of(padded, 1 << 20))), (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(fatbin_of(entry_of(padded, ~0ull - 63))), (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(images::fatbin_header(1 << 20) + entry_of(padded, padded.size())),
            (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(std::string("\x7f"
                             "ELF\x02\x01\x01",
                             7)),
            (uint32_t)CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(g_seen, "");
}

TEST_F(CodeImageTest, DriverGetsIntactImages) {
  std::string padded = std::string(kPtx).append(8 - sizeof(kPtx) % 8 + 1, '\0');
  std::string image = fatbin_of(entry_of(padded, padded.size()));
  load(image + "bytes behind the image");
  EXPECT_EQ(g_seen, image);
  load(std::string(kPtx) + '\0' + "bytes behind the text");
  EXPECT_EQ(g_seen, kPtx);
  link(CU_JIT_INPUT_FATBINARY, image);
  EXPECT_EQ(g_seen, image);
  link(CU_JIT_INPUT_PTX, kPtx);
  EXPECT_EQ(g_seen, std::string(kPtx, sizeof kPtx)) << "the text ends with a zero";
}

TEST_F(CodeImageTest, FatbinWithoutCodeIsRejected) {
  EXPECT_EQ(load(fatbin_of("")), (uint32_t)CUDA_ERROR_NO_BINARY_FOR_GPU);
}

}  // namespace
}  // namespace busbar::server

// Records of a client that reuses ids, destroys what is in use, or floods the helper threads, and a
// driver that refuses to free memory.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "server/executor.h"
#include "server/graph_functions.h"
#include "server/handlers.h"
#include "server/ipc.h"
#include "unit_tests/bulk_connection.h"
#include "unit_tests/test_session.h"
#include "wire/encode.h"

namespace busbar::server {
namespace {

constexpr uint32_t kContext = 1, kLegacy = 16, kStream = 20;
constexpr auto kDestroyGraph = (wire::Op)0x0041;

class HostileRecordsTest : public testing::Test {
 protected:
  HostileRecordsTest() {
    EXPECT_EQ(call(wire::Op::create_context, 0, {kContext, 0, kLegacy}), CUDA_SUCCESS);
    EXPECT_TRUE(send(wire::Op::create_stream, 0, {kStream, CU_STREAM_NON_BLOCKING, 0}));
  }
  bool send(wire::Op op, uint32_t stream, std::initializer_list<uint32_t> words) {
    wire::Encoder<> e(op, kContext, stream);
    for (uint32_t w : words) e.put(w);
    uint64_t used = 0;
    return executor.process(e.finish(), e.size(), used);
  }
  // Returns the status of the reply of a record whose handler runs on this thread.
  CUresult call(wire::Op op, uint32_t stream, std::initializer_list<uint32_t> words) {
    wire::Encoder<> e(op, kContext, stream);
    e.put(kReply);
    for (uint32_t w : words) e.put(w);
    uint64_t used = 0;
    EXPECT_TRUE(executor.process(e.finish(), e.size(), used));
    for (auto& f : t.frames())
      if (f.kind == wire::Frame::reply && f.field<uint64_t>(0) == kReply)
        return (CUresult)f.field<uint32_t>(8);
    return CUDA_ERROR_UNKNOWN;
  }
  CUresult destroy_graph(CUgraph g) {
    return call(kDestroyGraph, 0, {(uint32_t)(uint64_t)g, (uint32_t)((uint64_t)g >> 32)});
  }
  bool knows_graph(CUgraph g) {
    return t.session->objects.contains(ObjectKind::graph, (uint64_t)g);
  }
  CUgraph begin_capture() {
    EXPECT_EQ(call(wire::Op::begin_capture, kStream, {0, 0, 0, 0}), CUDA_SUCCESS);
    EXPECT_EQ(call(wire::Op::capture_info, kStream, {}), CUDA_SUCCESS);
    return t.session->stream(kStream)->captured_graph;
  }

  static constexpr uint64_t kReply = 77;
  TestSession t;
  Executor executor{*t.session};
};

TEST_F(HostileRecordsTest, StreamWithAKnownIdEndsTheSession) {
  EXPECT_FALSE(send(wire::Op::create_stream, 0, {kStream, CU_STREAM_NON_BLOCKING, 0}));
}

TEST_F(HostileRecordsTest, PartThatIsSentInPartsEndsTheSession) {
  wire::Encoder<> part(wire::Op::part, 0);
  uint64_t used = 0;
  part.flags(wire::kInParts).put<uint64_t>(0);
  EXPECT_FALSE(executor.process(part.finish(), part.size(), used));
}

TEST_F(HostileRecordsTest, PartsComeBeforeThePayloadOfTheRecordThatEndsThem) {
  wire::Encoder<> part(wire::Op::part, 0), rest(wire::Op::begin_capture, kContext, kStream);
  uint64_t used = 0;
  part.put(kReply).put<uint64_t>(0);
  rest.flags(wire::kInParts).put<uint64_t>(0);
  EXPECT_TRUE(executor.process(part.finish(), part.size(), used));
  EXPECT_TRUE(send(wire::Op::completion_fence, kStream, {}));  // of another thread of the program
  t.frames();
  EXPECT_TRUE(executor.process(rest.finish(), rest.size(), used));
  EXPECT_EQ(used, rest.size());
  auto frames = t.frames();
  ASSERT_FALSE(frames.empty());
  EXPECT_EQ(frames.front().kind, wire::Frame::reply);
  EXPECT_EQ(frames.front().field<uint64_t>(0), kReply);
  EXPECT_EQ(frames.front().field<uint32_t>(8), (uint32_t)CUDA_SUCCESS);
}

TEST_F(HostileRecordsTest, MorePartsThanAPayloadMayHaveEndTheSession) {
  std::vector<uint8_t> bytes(wire::kPartBytes);
  wire::Encoder<wire::kMaxRecordBytes> part(wire::Op::part, 0);
  part.raw(bytes.data(), wire::kPartBytes);
  uint64_t sent = 0, used = 0;
  while (executor.process(part.finish(), part.size(), used)) sent += wire::kPartBytes;
  EXPECT_LE(sent, wire::kMaxPayloadBytes);
  EXPECT_GT(sent, wire::kMaxPayloadBytes - wire::kPartBytes);
}

TEST_F(HostileRecordsTest, ContextWithAKnownIdIsRejected) {
  EXPECT_EQ(call(wire::Op::create_context, 0, {kContext, 0, 30}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call(wire::Op::create_context, 0, {2, 0, kStream}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostileRecordsTest, GraphUnderCaptureCannotBeDestroyed) {
  CUgraph g = begin_capture();
  ASSERT_TRUE(g);
  EXPECT_EQ(destroy_graph(g), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call(wire::Op::end_capture, kStream, {0, 0}), CUDA_SUCCESS);
  EXPECT_EQ(destroy_graph(g), CUDA_SUCCESS);
}

TEST_F(HostileRecordsTest, GraphOfAnInvalidCaptureIsForgotten) {
  CUgraph g = begin_capture();
  EXPECT_EQ(call(wire::Op::end_capture, kStream, {1, 0}), CUDA_SUCCESS);
  EXPECT_FALSE(knows_graph(g));
}

TEST_F(HostileRecordsTest, GraphOfADestroyedStreamIsForgotten) {
  CUgraph g = begin_capture();
  EXPECT_TRUE(send(wire::Op::destroy_stream, 0, {kStream}));
  EXPECT_FALSE(knows_graph(g));
}

TEST_F(HostileRecordsTest, GraphOfANodeIsForgottenWithIt) {
  auto& objects = t.session->objects;
  objects.add(ObjectKind::graph, 0x100);
  objects.add(ObjectKind::node, 0x200, 0x100);
  t.cu.cuGraphChildGraphNodeGetGraph = [](CUgraphNode, CUgraph* g) {
    *g = (CUgraph)0x300;
    return CUDA_SUCCESS;
  };
  t.cu.cuGraphDestroyNode = [](CUgraphNode) {
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(call((wire::Op)0x004b, 0, {0x200, 0}), CUDA_SUCCESS);
  EXPECT_EQ(destroy_graph((CUgraph)0x300), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call((wire::Op)0x0055, 0, {0x200, 0}), CUDA_SUCCESS);
  EXPECT_FALSE(knows_graph((CUgraph)0x300));
}

std::shared_future<void> g_may_end;

// The helper thread waits for a kernel that does not end.
TEST_F(HostileRecordsTest, FloodOfWorkForAHelperThreadEndsTheSession) {
  std::promise<void> end;
  g_may_end = end.get_future().share();
  t.cu.cuCtxSynchronize = [] {
    g_may_end.wait();
    return CUDA_SUCCESS;
  };
  uint64_t sent = 0;
  bool goes_on = true;
  for (; goes_on && sent < wire::kMaxHeldBytes; sent += 32) {
    goes_on = send(wire::Op::flush_output, 0, {1, 0});
    if (sent % (1 << 16) == 0) executor.advance();
  }
  EXPECT_FALSE(goes_on);
  EXPECT_LE(t.session->posted_bytes, wire::kMaxHeldBytes + (1 << 20));
  end.set_value();
  for (std::vector<uint8_t> replies; t.session->posted_bytes; replies.clear())
    if (!t.client->read(replies, 1 << 20)) std::this_thread::yield();
}

// A client need not wait for the reply.
TEST_F(HostileRecordsTest, GraphThatAHelperThreadUsesIsUnknownUntilTheReply) {
  constexpr uint64_t kGraph = 0x100, kNode = 0x200;
  auto& objects = t.session->objects;
  objects.add(ObjectKind::graph, kGraph);
  objects.add(ObjectKind::node, kNode, kGraph);
  std::promise<void> end;
  g_may_end = end.get_future().share();
  t.cu.cuGraphInstantiateWithParams = [](CUgraphExec* e, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS*) {
    g_may_end.wait();
    *e = (CUgraphExec)0x400;
    return CUDA_SUCCESS;
  };
  EXPECT_TRUE(send(wire::Op::instantiate, 0, {5, 0, kGraph, 0, 0, 0}));
  EXPECT_EQ(destroy_graph((CUgraph)kGraph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_FALSE(objects.contains(ObjectKind::node, kNode));
  end.set_value();
  while (t.frames().empty()) std::this_thread::yield();
  EXPECT_EQ(destroy_graph((CUgraph)kGraph), CUDA_SUCCESS);
}

TEST_F(HostileRecordsTest, GraphUnderCaptureCannotBeInstantiated) {
  CUgraph g = begin_capture();
  EXPECT_EQ(
      call(wire::Op::instantiate, 0, {(uint32_t)(uint64_t)g, (uint32_t)((uint64_t)g >> 32), 0, 0}),
      CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostileRecordsTest, HostFunctionsOfGraphsAreLimited) {
  auto& known = t.session->graph_functions.known;
  for (uint64_t i = 0; i < wire::kMaxListElements; ++i) known[(const void*)i] = nullptr;
  EXPECT_EQ(graph_callback_data(*t.session, 1), nullptr);
}

TEST_F(HostileRecordsTest, TokenWithAnotherSizeOpensNoMemory) {
  t.cu.cuMemExportToShareableHandle = [](void* fd, CUmemGenericAllocationHandle,
                                         CUmemAllocationHandleType, unsigned long long) {
    *(int*)fd = 99;
    return CUDA_SUCCESS;
  };
  t.session->shared[{}] = {{5, 64 << 20}, {6, 2 << 20}};
  wire::IpcToken token{};
  uint64_t bytes = 0;
  token.bytes = 64 << 20;
  EXPECT_EQ(export_shared(*t.session, token, 0, bytes), -1);
  token.bytes = 66 << 20;
  EXPECT_EQ(export_shared(*t.session, token, 0, bytes), 99);
  EXPECT_EQ(bytes, 64u << 20);
  token.offset = 2 << 20;
  EXPECT_EQ(export_shared(*t.session, token, 0, bytes), -1) << "no lease begins there";
  token.offset = 64 << 20;
  EXPECT_EQ(export_shared(*t.session, token, 0, bytes), 99);
  EXPECT_EQ(bytes, 2u << 20);
}

// After a fault a driver frees nothing in its context.
class FaultyDriverTest : public HostileRecordsTest {
 protected:
  static constexpr uint64_t kBytes = 2 << 20;
  FaultyDriverTest() {
    EXPECT_TRUE(t.account.reserve(0, kBytes));
    t.session->leases[0x1000] = {kBytes, 0, 7, false};
    t.session->leases[0x2000] = {kBytes, 0, 0, true};
  }
  void free_all() {
    uint64_t inside = 0x1000, outside = 0x2000;
    handlers::return_memory(*t.session, wire::Decoder(&inside, sizeof inside));
    handlers::release(*t.session, wire::Decoder(&outside, sizeof outside));
  }
};

TEST_F(FaultyDriverTest, MemoryThatIsNotFreedStaysCharged) {
  t.cu.cuMemUnmap = [](CUdeviceptr, size_t) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  t.cu.cuMemFree = [](CUdeviceptr) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  free_all();
  EXPECT_EQ(t.session->leases.size(), 2u);
  EXPECT_EQ(t.account.charged_here(0), kBytes);
}

TEST_F(FaultyDriverTest, MemoryThatIsNotReleasedStaysCharged) {
  t.cu.cuMemRelease = [](CUmemGenericAllocationHandle) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  uint64_t at = 0x1000;
  handlers::return_memory(*t.session, wire::Decoder(&at, sizeof at));
  EXPECT_EQ(t.account.charged_here(0), kBytes);
}

// A kernel may wait for the program, and the program for its memory.
TEST_F(FaultyDriverTest, ReturnOfMemoryDoesNotWaitForTheGpu) {
  static bool waited;
  waited = false;
  t.cu.cuCtxSynchronize = [] {
    waited = true;
    return CUDA_SUCCESS;
  };
  uint64_t at = 0x1000;
  handlers::return_memory(*t.session, wire::Decoder(&at, sizeof at));
  EXPECT_FALSE(waited);
  EXPECT_EQ(t.account.charged_here(0), 0u);
}

TEST_F(FaultyDriverTest, ModuleThatIsNotUnloadedStaysCharged) {
  t.cu.cuModuleUnload = [](CUmodule) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  {
    LoadedModule module(t.cu, nullptr, MemoryCharge(t.account, 0, kBytes));
  }
  EXPECT_EQ(t.account.charged_here(0), 2 * kBytes);
}

// Connections in the order in which their handshakes end. Each has a thread that reads it.
class BulkConnectionTest : public testing::Test {
 protected:
  // Starts the thread and waits until it has read a chunk of the transfer `counter`.
  std::thread start(uint64_t counter, BulkConnection& connection) {
    std::thread reader([&, counter] { t.bulk.receive(counter, std::move(connection.server)); });
    connection.send(counter, 0, chunk);
    EXPECT_TRUE(t.bulk.wait(counter, chunk.size(), kPatienceMs));
    return reader;
  }

  TestSession t;
  std::vector<uint8_t> chunk = std::vector<uint8_t>(64, 5);
};

TEST_F(BulkConnectionTest, NewerConnectionEndsTheThreadOfTheOlderOne) {
  BulkConnection older, newer;
  std::thread first = start(1, older), second = start(2, newer);
  first.join();
  newer.client.close();
  second.join();
}

TEST_F(BulkConnectionTest, OlderConnectionThatIsLateDoesNotReplaceTheNewerOne) {
  BulkConnection older, newer;
  std::thread reader = start(2, newer);
  t.bulk.receive(1, std::move(older.server));
  newer.send(2, chunk.size(), chunk);
  EXPECT_TRUE(t.bulk.wait(2, 2 * chunk.size(), kPatienceMs));
  newer.client.close();
  reader.join();
}

}  // namespace
}  // namespace busbar::server

// Numbers of a client that are no value of their enumeration: none reaches the driver, and none is
// stored as an enumeration, which a run with UndefinedBehaviorSanitizer shows.
#include "wire/enumeration.h"

#include <gtest/gtest.h>

#include "server/copy_descriptor.h"
#include "server/executor.h"
#include "unit_tests/test_session.h"
#include "wire/encode.h"
#include "wire/launch_attribute.h"
#include "wire/tensor_map.h"

namespace busbar::server {
namespace {

constexpr uint16_t kCreateTexture = 0x0088, kSetCacheConfig = 0x0018, kGetLimit = 0x0015;
constexpr uint64_t kGraph = 5, kCondition = 6;
constexpr uint32_t kUnknown[] = {64, 0x1000, 0x80000000, UINT32_MAX};

int g_calls = 0;  // of the driver
template <typename... A>
CUresult count_call(A...) {
  ++g_calls;
  return CUDA_SUCCESS;
}

// Stores a number in the place of an enumeration.
template <typename E>
void write_number(E& field, uint32_t n) {
  std::memcpy((void*)&field, &n, sizeof n);
}

class EnumerationsTest : public testing::Test {
 protected:
  EnumerationsTest() {
    g_calls = 0;
    t.cu.cuTexObjectCreate = count_call;
    t.cu.cuCtxSetCacheConfig = count_call;
    t.cu.cuCtxGetLimit = count_call;
    t.cu.cuCtxSetLimit = count_call;
    t.cu.cuArray3DCreate = count_call;
    t.cu.cuGraphAddNode = count_call;
    t.cu.cuGraphAddBatchMemOpNode = count_call;
    t.cu.cuTensorMapEncodeTiled = count_call;
    t.cu.fresh_memory_is_zero = true;
    t.session->objects.add(ObjectKind::graph, kGraph);
    t.session->objects.add(ObjectKind::condition, kCondition);
  }
  // Sends a record with a reply, and returns the status of that.
  template <typename Op, typename... Fields>
  uint32_t call(Op op, const Fields&... fields) {
    wire::Encoder<4096> e(op, 1, wire::kNoStream);
    e.template put<uint64_t>(9);
    (e.put(fields), ...);
    uint64_t used = 0;
    EXPECT_TRUE(executor.process(e.finish(), e.size(), used));
    for (int i = 0; i < 2000; ++i, usleep(1000))  // some are answered by a helper thread
      for (auto& f : t.frames())
        if (f.kind == wire::Frame::reply) return f.field<uint32_t>(8);
    ADD_FAILURE() << "there is no reply";
    return 0;
  }
  // `call` gets each unknown number, and must refuse it before it calls the driver.
  template <typename Call>
  void expect_refused(const char* what, Call each) {
    for (uint32_t n : kUnknown) EXPECT_NE(each(n), (uint32_t)CUDA_SUCCESS) << what << " " << n;
    EXPECT_EQ(g_calls, 0) << what;
  }

  TestSession t;
  Executor executor{*t.session};
};

TEST_F(EnumerationsTest, ValuesAreThoseOfCuda) {
  EXPECT_TRUE(wire::is_value<CUmemorytype>(CU_MEMORYTYPE_UNIFIED));
  EXPECT_FALSE(wire::is_value<CUmemorytype>(0));
  EXPECT_FALSE(wire::is_value<CUmemorytype>(5));
  EXPECT_TRUE(wire::is_value<CUfunc_cache>(0));
  EXPECT_TRUE(wire::is_value<CUarray_format>(CU_AD_FORMAT_FLOAT));
  EXPECT_FALSE(wire::is_value<CUarray_format>(CU_AD_FORMAT_FLOAT + 0x1000));
}

TEST_F(EnumerationsTest, ArgumentOfACall) {
  expect_refused("cache", [&](uint32_t n) { return call(kSetCacheConfig, n); });
  expect_refused("limit", [&](uint32_t n) { return call(kGetLimit, n); });
  expect_refused("limit",
                 [&](uint32_t n) { return call(wire::Op::set_limit, n, 0u, (uint64_t)1); });
  EXPECT_EQ(call(kSetCacheConfig, (uint32_t)CU_FUNC_CACHE_PREFER_L1), (uint32_t)CUDA_SUCCESS);
}

TEST_F(EnumerationsTest, FormatOfAnArray) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Width = d.NumChannels = 1;
  d.Format = CU_AD_FORMAT_FLOAT;
  auto create = [&](uint32_t n) {
    write_number(d.Format, n);
    return call(wire::Op::create_array, d, 0u);
  };
  expect_refused("format", create);
  EXPECT_EQ(create(CU_AD_FORMAT_FLOAT), (uint32_t)CUDA_SUCCESS);
  EXPECT_EQ(g_calls, 1);
}

TEST_F(EnumerationsTest, FieldsOfATexture) {
  CUDA_RESOURCE_DESC linear{};
  linear.resType = CU_RESOURCE_TYPE_LINEAR;
  linear.res.linear.format = CU_AD_FORMAT_FLOAT;
  CUDA_RESOURCE_DESC rows{};
  rows.resType = CU_RESOURCE_TYPE_PITCH2D;
  rows.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  auto create = [&](const CUDA_RESOURCE_DESC& resource) {
    return call(kCreateTexture, resource, texture, (uint8_t)1, view);
  };
  auto refused_in = [&](const char* what, auto& field, const CUDA_RESOURCE_DESC& resource) {
    auto before = field;
    expect_refused(what, [&](uint32_t n) {
      write_number(field, n);
      return create(resource);
    });
    field = before;
  };
  refused_in("kind", linear.resType, linear);
  refused_in("format", linear.res.linear.format, linear);
  refused_in("format of rows", rows.res.pitch2D.format, rows);
  for (auto& mode : texture.addressMode) refused_in("address mode", mode, linear);
  refused_in("filter", texture.filterMode, linear);
  refused_in("filter of levels", texture.mipmapFilterMode, linear);
  refused_in("view", view.format, linear);
  EXPECT_EQ(create(linear), (uint32_t)CUDA_SUCCESS);
  EXPECT_EQ(create(rows), (uint32_t)CUDA_SUCCESS);
}

TEST_F(EnumerationsTest, MemoryOfACopy) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.WidthInBytes = c.Height = c.Depth = 1;
  EXPECT_TRUE(valid_copy(*t.session, c, ProgramSide::none));
  for (auto* type : {&c.srcMemoryType, &c.dstMemoryType})
    for (uint32_t n : kUnknown) {
      write_number(*type, n);
      EXPECT_FALSE(valid_copy(*t.session, c, ProgramSide::none)) << n;
      *type = CU_MEMORYTYPE_DEVICE;
    }
}

TEST_F(EnumerationsTest, NodesOfAGraph) {
  expect_refused("conditional", [&](uint32_t n) {
    return call(wire::Op::conditional_node, 0u, 0u, kGraph, (uint64_t)0, (uint64_t)0, kCondition, n,
                1u);
  });
  auto add = [&](uint32_t n) {
    CUstreamBatchMemOpParams operation{};
    write_number(operation.operation, n);
    return call(wire::Op::batch_mem_op_node, 0u, 0u, kGraph, (uint64_t)0, (uint64_t)0, 0u, 1u,
                operation);
  };
  expect_refused("memory operation", add);
  EXPECT_EQ(add(CU_STREAM_MEM_OP_BARRIER), (uint32_t)CUDA_SUCCESS);
}

TEST_F(EnumerationsTest, FieldsOfATensorMap) {
  wire::TensorMapRequest q{};
  q.rank = 1;
  for (auto* field : {&q.type, &q.interleave, &q.swizzle, &q.promotion, &q.fill}) {
    expect_refused("tensor map", [&](uint32_t n) {
      *field = n;
      return call(wire::Op::tensor_map, q);
    });
    *field = 0;
  }
  EXPECT_EQ(call(wire::Op::tensor_map, q), (uint32_t)CUDA_SUCCESS);
}

TEST_F(EnumerationsTest, ValueOfAnAttribute) {
  auto keeps = [](CUlaunchAttributeID id, CUlaunchAttributeValue& v) {
    return wire::keep_fields(id, wire::AttributeUse::launch, v) == CUDA_SUCCESS;
  };
  CUlaunchAttributeValue v{};
  for (uint32_t n : kUnknown) {
    write_number(v.accessPolicyWindow.missProp, n);
    EXPECT_FALSE(keeps(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, v)) << n;
    write_number(v.clusterSchedulingPolicyPreference, n);
    EXPECT_FALSE(keeps(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, v)) << n;
    write_number(v.memSyncDomain, n);
    EXPECT_FALSE(keeps(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, v)) << n;
    v = {};
  }
  EXPECT_TRUE(keeps(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, v));
}

}  // namespace
}  // namespace busbar::server

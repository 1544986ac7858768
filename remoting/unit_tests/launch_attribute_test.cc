// Attributes of launches and nodes, and functions of unloaded modules: what a driver gets of them.
#include "wire/launch_attribute.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "server/executor.h"
#include "server/operations.h"
#include "unit_tests/test_session.h"
#include "wire/encode.h"
#include "wire/jit_option.h"

namespace busbar::server {
namespace {

constexpr uint32_t kLaunchStream = 16, kFunction = 5, kModule = 3;
constexpr uint16_t kSetNodeAttribute = 0x0063, kGetNodeAttribute = 0x0062;

std::vector<CUlaunchAttribute> g_attributes;  // by the driver
int g_launches = 0;
std::atomic<int> g_unloads = 0;  // by the thread of code

CUlaunchAttribute filled(CUlaunchAttributeID id) {
  CUlaunchAttribute a;
  std::memset((void*)&a, 0x5a, sizeof a);
  a.id = id;
  if (id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
    a.value.accessPolicyWindow.hitProp = a.value.accessPolicyWindow.missProp =
        CU_ACCESS_PROPERTY_NORMAL;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
    a.value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_DEFAULT;
  if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
    a.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  return a;
}

// The bytes that filled() sets in the value of an attribute, of those that a driver gets.
uint32_t bytes_filled(const wire::AttributeRow& row) {
  switch (row.id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: return row.bytes - 2 * sizeof(CUaccessProperty);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return 0;
    default: return row.bytes;
  }
}

uint32_t bytes_set(const CUlaunchAttributeValue& v) {
  uint32_t n = 0;
  for (char c : std::string((const char*)&v, sizeof v)) n += c == 0x5a;
  return n;
}

// Return the error for an attribute that is not in the table: of CUDA, or unknown.
uint32_t refused(const std::set<int>& of_cuda, int id) {
  return of_cuda.count(id) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

class LaunchAttributeTest : public testing::Test {
 protected:
  LaunchAttributeTest() {
    g_attributes.clear();
    g_launches = 0;
    g_unloads = 0;
    t.cu.cuLaunchKernelEx = [](const CUlaunchConfig* c, CUfunction, void**, void**) {
      g_attributes.assign(c->attrs, c->attrs + c->numAttrs);
      ++g_launches;
      return CUDA_SUCCESS;
    };
    t.cu.cuGraphKernelNodeSetAttribute = [](CUgraphNode, CUkernelNodeAttrID id,
                                            const CUkernelNodeAttrValue* v) {
      g_attributes.push_back({id, {}, *v});
      return CUDA_SUCCESS;
    };
    t.cu.cuModuleUnload = [](CUmodule) {
      ++g_unloads;
      return CUDA_SUCCESS;
    };
    wire::Encoder<> e(wire::Op::create_context, 1, 0);
    for (uint32_t w : {9u, 0u, 1u, 0u, kLaunchStream}) e.put(w);
    send(e.finish(), e.size());
    auto module = std::make_shared<LoadedModule>(t.cu, nullptr, MemoryCharge());
    EXPECT_EQ(module->add_function(t.session->functions, kFunction, (CUfunction)8), CUDA_SUCCESS);
    t.session->modules[kModule] = std::move(module);
    t.frames();
  }
  bool send(const uint8_t* record, uint64_t bytes) {
    uint64_t used = 0;
    return executor.process(record, bytes, used);
  }
  // Returns the error of the stream, or -1 if the record ended the session.
  int launch(const std::vector<CUlaunchAttribute>& attributes) {
    wire::Encoder<4096> e(wire::Op::launch, 1, kLaunchStream);
    for (uint32_t w : {kFunction, 1u, 1u, 1u, 1u, 1u, 1u, 0u, (uint32_t)attributes.size(), 0u, 0u})
      e.put(w);
    e.raw(attributes.data(), (uint32_t)(attributes.size() * sizeof attributes[0]));
    wire::Encoder<> fence(wire::Op::completion_fence, 1, kLaunchStream);
    if (!send(e.finish(), e.size()) || !send(fence.finish(), fence.size())) return -1;
    executor.advance();
    uint32_t error = 0;
    for (auto& f : t.frames())
      if (f.kind == wire::Frame::completion) error = f.error();
    return (int)error;
  }
  // Waits for a reply and returns its status.
  uint32_t reply_status() {
    for (;; std::this_thread::yield())
      for (auto& f : t.frames())
        if (f.kind == wire::Frame::reply) return f.field<uint32_t>(8);
  }
  // Waits until the thread of code has run what was posted.
  void finish_code() {
    wire::Encoder<> e(wire::Op::list_functions, 1);
    e.put<uint64_t>(9).put<uint32_t>(99);
    send(e.finish(), e.size());
    reply_status();
  }
  uint32_t node_call(uint16_t opcode, const CUlaunchAttribute& a) {
    uint64_t node = 77;
    t.session->objects.add(ObjectKind::node, node);
    wire::Encoder<> e(opcode, 1, wire::kNoStream);
    e.put<uint64_t>(9).put(node).put(a.id).put(a.value);
    EXPECT_TRUE(send(e.finish(), e.size()));
    return t.frames().at(0).field<uint32_t>(8);
  }

  TestSession t;
  Executor executor{*t.session};
};

TEST_F(LaunchAttributeTest, DriverGetsOnlyTheFieldsOfTheTable) {
  for (auto& row : wire::kLaunchAttributes) {
    EXPECT_EQ(launch({filled(row.id)}), (int)CUDA_SUCCESS) << row.id;
    ASSERT_EQ(g_attributes.size(), 1u);
    EXPECT_EQ(g_attributes[0].id, row.id);
    EXPECT_EQ(bytes_set(g_attributes[0].value), bytes_filled(row)) << row.id;
  }
}

TEST_F(LaunchAttributeTest, AttributesWithAddressesAreRefused) {
  for (int id = -1; id < 64; ++id) {
    auto a = filled((CUlaunchAttributeID)id);
    if (wire::find_attribute(a.id, wire::AttributeUse::launch)) continue;
    EXPECT_NE(launch({filled(CU_LAUNCH_ATTRIBUTE_COOPERATIVE), a}), (int)CUDA_SUCCESS);
    EXPECT_EQ(wire::keep_fields(a.id, wire::AttributeUse::launch, a.value),
              refused({7, 12, 13, 16}, id))
        << id;
  }
  EXPECT_EQ(g_launches, 0);
  EXPECT_FALSE(
      wire::find_attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, wire::AttributeUse::launch));
  EXPECT_FALSE(wire::find_attribute(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
                                    wire::AttributeUse::launch));
  EXPECT_FALSE(wire::find_attribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE,
                                    wire::AttributeUse::node));
}

TEST_F(LaunchAttributeTest, TooManyAttributesEndTheSession) {
  std::vector<CUlaunchAttribute> list(wire::kMaxLaunchAttributes,
                                      filled(CU_LAUNCH_ATTRIBUTE_IGNORE));
  EXPECT_EQ(launch(list), (int)CUDA_SUCCESS);
  list.push_back(list[0]);
  EXPECT_EQ(launch(list), -1);
}

TEST_F(LaunchAttributeTest, AttributesOfNodesAreThoseOfTheTable) {
  for (int id = -1; id < 64; ++id) {
    auto a = filled((CUlaunchAttributeID)id);
    auto* row = wire::find_attribute(a.id, wire::AttributeUse::node);
    uint32_t expected = row ? (uint32_t)CUDA_SUCCESS : refused({13, 16}, id);
    g_attributes.clear();
    EXPECT_EQ(node_call(kSetNodeAttribute, a), expected) << id;
    EXPECT_EQ(node_call(kGetNodeAttribute, a), expected) << id;
    ASSERT_EQ(g_attributes.size(), row ? 1u : 0u);
    if (!row) continue;
    EXPECT_EQ(bytes_set(g_attributes[0].value), bytes_filled(*row)) << id;
  }
}

TEST_F(LaunchAttributeTest, FunctionOfAnUnloadedModuleIsNotLaunched) {
  EXPECT_EQ(launch({}), (int)CUDA_SUCCESS);
  ModuleRef in_use = t.session->modules[kModule];  // by the worker thread
  wire::Encoder<> e(wire::Op::unload_module, 1);
  e.put(kModule);
  EXPECT_TRUE(send(e.finish(), e.size()));
  EXPECT_EQ(launch({}), (int)CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(in_use->add_function(t.session->functions, kFunction, (CUfunction)8),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(t.session->functions.id_of((CUfunction)8), 0u);
  EXPECT_EQ(g_launches, 1);
  finish_code();
  EXPECT_EQ(g_unloads, 0);
  in_use.reset();
  EXPECT_EQ(g_unloads, 1);
}

TEST_F(LaunchAttributeTest, ModuleThatIsUnloadedBeforeItsLoadEndsIsNotPublished) {
  constexpr uint32_t kOther = 4;
  wire::Encoder<> e(wire::Op::unload_module, 1);
  e.put(kOther);
  t.session->unloading.insert(kOther);
  wire::Encoder<> load(wire::Op::load_module, 1);
  uint8_t hash[32] = {};
  load.put<uint64_t>(9).put(kOther).put<uint32_t>(1).put<uint64_t>(4).put<uint64_t>(0);
  load.put<uint64_t>(1).put<uint64_t>(0).put(wire::kJitLogBytes).put(wire::kJitLogBytes);
  load.raw(hash, sizeof hash).raw("ptx", 4);
  EXPECT_TRUE(send(load.finish(), load.size()));
  EXPECT_EQ(reply_status(), (uint32_t)CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(g_unloads, 1);
  EXPECT_TRUE(send(e.finish(), e.size()));
  finish_code();
  EXPECT_TRUE(t.session->unloading.empty());
}

TEST_F(LaunchAttributeTest, IdOfAFunctionIsNotUsedTwice) {
  EXPECT_FALSE(t.session->functions.add(kFunction, (CUfunction)16));
  EXPECT_EQ(t.session->functions.get(kFunction), (CUfunction)8);
}

}  // namespace
}  // namespace busbar::server

#include <pthread.h>
#include <unistd.h>

#include <cstring>

#include "server/handlers.h"
#include "server/reply.h"
#include "server/self_test_answer.h"
#include "server/session.h"

namespace busbar::server {

namespace {
constexpr uint64_t kMaxDevices = 64;
constexpr CUuuid kRuntimeTable = {{'\x6b', '\xd5', '\xfb', '\x6c', '\x5b', '\xf4', '\xe7', '\x4a',
                                   '\x89', '\x87', '\xd9', '\x39', '\x12', '\xfd', '\x9d', '\xf9'}};
constexpr CUuuid kIntegrityTable = {{'\xd4', '\x08', '\x20', '\x55', '\xbd', '\xe6', '\x70', '\x4b',
                                     '\x8d', '\x34', '\xba', '\x12', '\x3c', '\x66', '\xe1',
                                     '\xf2'}};
using Challenge = CUresult (*)(uint32_t version, uint64_t seconds, uint64_t out[2]);

std::vector<wire::SelfTestDevice> own_devices(Driver& cu) {
  std::vector<wire::SelfTestDevice> list;
  int count = 0;
  cu.cuDeviceGetCount(&count);
  for (int i = 0; i < count; ++i) {
    wire::SelfTestDevice v{};
    CUdevice d;
    CUuuid uuid;
    if (cu.cuDeviceGet(&d, i) || cu.cuDeviceGetUuid(&uuid, d)) return {};
    std::memcpy(v.uuid, uuid.bytes, 16);
    cu.cuDeviceGetAttribute(&v.domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, d);
    cu.cuDeviceGetAttribute(&v.bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, d);
    cu.cuDeviceGetAttribute(&v.slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, d);
    list.push_back(v);
  }
  return list;
}

// Runs the test on the driver of this node for this process. True if its answer is correct.
bool driver_passes(Driver& cu, uint32_t version, uint64_t seconds) {
  const void *runtime = nullptr, *integrity = nullptr;
  if (!cu.cuGetExportTable || cu.cuGetExportTable(&runtime, &kRuntimeTable) ||
      cu.cuGetExportTable(&integrity, &kIntegrityTable) || !runtime || !integrity)
    return false;
  auto challenge = ((const Challenge*)integrity)[1];
  int driver_version = 0;
  uint64_t got[2] = {};
  if (!challenge || cu.cuDriverGetVersion(&driver_version) || challenge(version, seconds, got))
    return false;
  wire::SelfTestQuestion q{(uint32_t)driver_version, version,
                           (uint32_t)getpid(),       (uint32_t)pthread_self(),
                           (uint64_t)runtime,        (uint64_t)integrity,
                           (uint64_t)challenge,      seconds};
  auto expected = self_test_answer(q, own_devices(cu));
  return got[0] == expected[0] && got[1] == expected[1];
}
}  // namespace

// question, number of devices, devices -> the answer, if the driver of this node passes the same
// test
void handlers::self_test(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto q = in.get<wire::SelfTestQuestion>();
  std::vector<wire::SelfTestDevice> devices;
  uint64_t count = in.get<uint64_t>();
  if (count > kMaxDevices || !in.elements(devices, count))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (!driver_passes(s.cu, q.version, q.seconds)) return s.reply(reply, CUDA_ERROR_NOT_SUPPORTED);
  std::string out;
  for (uint64_t v : self_test_answer(q, devices)) append(out, v);
  s.reply(reply, CUDA_SUCCESS, out);
}

}  // namespace busbar::server

// Null driver: modules. A module of machine code has every function that is looked up. Parameters
// of PTX kernels are parsed, so that launch records have the same size as with a GPU.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "null_driver/attacks.h"
#include "null_driver/driver.h"
#include "server/self_test_answer.h"

namespace {
struct Module;
struct Function {
  Module* module;
  std::string name;
  std::vector<std::pair<size_t, size_t>> layout;
};
struct Module {
  std::mutex mutex;
  std::string ptx;
  std::map<std::string, Function*> functions;
  std::map<std::string, CUdeviceptr> globals;
};

size_t bytes_of(const std::string& type) {
  return type.find("64") != std::string::npos   ? 8
         : type.find("32") != std::string::npos ? 4
         : type.find("16") != std::string::npos ? 2
                                                : 1;
}

bool ends_word(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '(' || c == '\r';
}

std::string word_at(const std::string& text, size_t& at) {
  while (at < text.size() && ends_word(text[at])) ++at;
  size_t begin = at;
  while (at < text.size() && !ends_word(text[at])) ++at;
  return text.substr(begin, at - begin);
}

// .param .u64 name, .param .align 8 .b8 name[40]
void read_parameter(std::istringstream words, Function& f, size_t& at) {
  std::string word, type;
  size_t align = 0, count = 1;
  while (words >> word) {
    if (word == ".align")
      words >> align;
    else if (word == ".ptr")
      break;
    else if (word[0] == '.' && word != ".param")
      type = word;
    else if (size_t bracket = word.find('['); bracket != std::string::npos)
      count = std::stoul(word.substr(bracket + 1));
  }
  if (type.empty()) return;
  size_t element = bytes_of(type);
  align = std::max(align, element);
  at = (at + align - 1) / align * align;
  f.layout.emplace_back(at, element * count);
  at += element * count;
}

void read_entries(Module& m) {
  for (size_t at = m.ptx.find(".entry"); at != std::string::npos; at = m.ptx.find(".entry", at)) {
    at += 6;
    std::string name = word_at(m.ptx, at);
    auto* f = new Function{&m, name, {}};
    m.functions[name] = f;
    size_t open = m.ptx.find_first_of("({", at),
           close = open == std::string::npos || m.ptx[open] == '{' ? open : m.ptx.find(')', open),
           offset = 0;
    if (close == open || close == std::string::npos) continue;
    std::istringstream list(m.ptx.substr(open + 1, close - open - 1));
    for (std::string parameter; std::getline(list, parameter, ',');)
      read_parameter(std::istringstream(parameter), *f, offset);
  }
}
}  // namespace

#undef cuModuleLoadDataEx
API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  auto* m = new Module;
  auto* p = (const char*)image;
  if (*p == '.' || *p == '/' || *p == '\n' || *p == ' ') {
    m->ptx = p;
    read_entries(*m);
  }
  *out = (CUmodule)m;
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
API CUresult cuModuleUnload(CUmodule h) {
  auto* m = (Module*)h;
  for (auto& [n, f] : m->functions) delete f;
  delete m;
  return CUDA_SUCCESS;
}
API CUresult cuModuleGetFunction(CUfunction* out, CUmodule h, const char* name) {
  auto* m = (Module*)h;
  std::lock_guard lock(m->mutex);
  Function*& f = m->functions[name];
  if (!f && !m->ptx.empty()) {
    m->functions.erase(name);
    return CUDA_ERROR_NOT_FOUND;
  }
  if (!f) f = new Function{m, name, {}};
  *out = (CUfunction)f;
  return CUDA_SUCCESS;
}
// A module of machine code has at least one function.
API CUresult cuModuleGetFunctionCount(unsigned* n, CUmodule h) {
  CUfunction any;
  if (((Module*)h)->ptx.empty()) cuModuleGetFunction(&any, h, "any");
  *n = (unsigned)((Module*)h)->functions.size();
  return CUDA_SUCCESS;
}
API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned n, CUmodule h) {
  unsigned i = 0;
  for (auto& [name, f] : ((Module*)h)->functions)
    if (i < n) out[i++] = (CUfunction)f;
  return CUDA_SUCCESS;
}
// A name that starts with "attack:" runs attacks.h instead; the result is the size.
API CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* n, CUmodule h, const char* name) {
  constexpr char kAttack[] = "attack:";
  if (!std::strncmp(name, kAttack, sizeof kAttack - 1)) {
    *n = (size_t)run_attack(name + sizeof kAttack - 1);
    return CUDA_SUCCESS;
  }
  auto* m = (Module*)h;
  std::lock_guard lock(m->mutex);
  CUdeviceptr& at = m->globals[name];
  if (!at) cuMemAlloc(&at, 1 << 20);  // larger than any symbol of the tests
  if (p) *p = at;
  if (n) *n = 1 << 20;
  return CUDA_SUCCESS;
}
API CUresult cuFuncLoad(CUfunction) {
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetName(const char** name, CUfunction f) {
  *name = ((Function*)f)->name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetParamInfo(CUfunction h, size_t i, size_t* offset, size_t* bytes) {
  auto* f = (Function*)h;
  if (i >= f->layout.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = f->layout[i].first;
  *bytes = f->layout[i].second;
  return CUDA_SUCCESS;
}
// A function with the name "deep" needs larger stacks than contexts have.
API CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction h) {
  switch (a) {
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *v = ((Function*)h)->name == "deep" ? 1088 : 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *v = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *v = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *v = 232448; break;
    default: *v = 0;
  }
  return CUDA_SUCCESS;
}
API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}
API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction, int, size_t) {
  *n = 8;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, CUfunction, int, size_t,
                                                                  unsigned) {
  *n = 8;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* n, CUfunction, int, int) {
  *n = 100000;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxActiveClusters(int* n, CUfunction, const CUlaunchConfig*) {
  *n = 16;
  return CUDA_SUCCESS;
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  return CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void**, void**) {
  return CUDA_SUCCESS;
}
API CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned,
                              CUjit_option*, void**) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuLinkComplete(CUlinkState, void**, size_t*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuLinkDestroy(CUlinkState) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* p,
                                    const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &p, sizeof p);
  return CUDA_SUCCESS;
}

// ---- self-test of NVIDIA's runtime library: only this driver answers it, so that the exchange can
// be tested without a GPU ----
namespace {
void* g_runtime_table[13] = {(void*)sizeof g_runtime_table};
CUresult answer_self_test(uint32_t version, uint64_t seconds, uint64_t out[2]);
void* g_integrity_table[3] = {(void*)sizeof g_integrity_table, (void*)answer_self_test};

CUresult answer_self_test(uint32_t version, uint64_t seconds, uint64_t out[2]) {
  int driver = 0, count = 0;
  cuDriverGetVersion(&driver);
  cuDeviceGetCount(&count);
  std::vector<busbar::wire::SelfTestDevice> devices;
  for (int d = 0; d < count; ++d) {
    busbar::wire::SelfTestDevice v{};
    CUuuid u;
    cuDeviceGetUuid_v2(&u, d);
    std::memcpy(v.uuid, u.bytes, 16);
    cuDeviceGetAttribute(&v.domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, d);
    cuDeviceGetAttribute(&v.bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, d);
    cuDeviceGetAttribute(&v.slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, d);
    devices.push_back(v);
  }
  busbar::wire::SelfTestQuestion q{(uint32_t)driver,
                                   version,
                                   (uint32_t)getpid(),
                                   (uint32_t)pthread_self(),
                                   (uint64_t)g_runtime_table,
                                   (uint64_t)g_integrity_table,
                                   (uint64_t)g_integrity_table[1],
                                   seconds};
  auto answer = busbar::self_test_answer(q, devices);
  const char* wrong = std::getenv("NULL_DRIVER_FAILS_SELF_TEST");
  out[0] = answer[0] ^ (wrong ? 1 : 0);
  out[1] = answer[1];
  return CUDA_SUCCESS;
}
}  // namespace

API CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  *table = (uint8_t)id->bytes[0] == 0x6b   ? (void*)g_runtime_table
           : (uint8_t)id->bytes[0] == 0xd4 ? (void*)g_integrity_table
                                           : nullptr;
  return *table ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

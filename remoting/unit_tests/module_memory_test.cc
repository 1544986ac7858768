// Charges before the driver allocates: variables of images, limits of contexts, and the device.
#include <elf.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

#include "images/elf.h"
#include "images/fatbin.h"
#include "images/ptx_variables.h"
#include "server/handlers.h"
#include "server/image_memory.h"
#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

constexpr uint64_t kMiB = 1 << 20, kFailed = 1;

// Returns the measured bytes, or kFailed.
uint64_t variables_of(const std::string& text) {
  uint64_t bytes = 0;
  const char* error = nullptr;
  return images::measure_ptx_variables(text, bytes, error) ? bytes : kFailed;
}

TEST(PtxVariables, SizesAreThoseOfTheDeclarations) {
  const std::map<std::string, uint64_t> kCases = {
      {"", 0},
      {".global .b8 a[4097];", 8192},
      {".visible .global .align 8 .b8 a[1048576];", kMiB},
      {".global .u64 a[1024][1024];", 8 * kMiB},
      {".global .v4 .f32 a[65536];", kMiB},
      {".global .f64 a[0x20000];", kMiB},
      {".global .u32 a[01000000];", kMiB},
      {".const .b32 a[262144U];", kMiB},
      {".const[3] .b32 a[262144];", kMiB},
      {".global .u32 a, b[262136], c;", kMiB},
      {".global .attribute(.managed) .b8 a[1048576];", kMiB},
      {".global .s16 a[] = {1, 2, 3}; .global .b8 b[4080];", 4096},
      {".global .b64 a[] = {x+4, generic(y)};", 4096},
      {".extern .global .b8 a[1048576];", 0},
      {".extern .func f; .global .b8 a[1048576];", kMiB},
      {".weak .global .b8 a[1048576];", kMiB},
      {".visible.global.align 4.b8 a[1048576];", kMiB},
      {".target sm_80 .global .b8 a[1048576];", kMiB},
      {".shared .b8 a[1048576]; .local .b8 b[1048576];", 0},
      {".entry k(.param .u64 .ptr .global .align 8 p) { ret; }", 0},
      {".entry k() { ld.global.u32 %r1, [x]; st.const.u8 [x], %r1; cvta.to.global.u64 %rd1, x; }",
       0},
      {"// .global .b8 a[1048576];\n/* .global .b8 b[1048576]; */", 0},
      {"// x\r\n.global .b8 a[1048576];", kMiB},
      {".target ld\n.global .b8 a[1048576];", kMiB},
      {".file .ptr\n.global .b8 a[1048576];", kMiB},
      {".global .attribute(.unified(1, 2)) .b8 a[1048576];", kMiB},
      {".global .align 1048576 .ptr .align 8 .b8 a[16];", kMiB},
      {".global .b128 .b8 a[65536];", kMiB},
      {".global .b8 a[0] = {1, 2}; .global .b8 b[4090];", 8192},
      {".global .b8 a; .global .align 4096 .b8 b[4096]; .global .b8 c;", 12288},
      {".file 1 \".global .b8 a[9999];\"", 0},
  };
  for (auto& [text, bytes] : kCases) EXPECT_EQ(variables_of(text), bytes) << text;
}

TEST(PtxVariables, UnknownSizesAreRefused) {
  for (const char* text :
       {".global .b8 a[N];", ".global .b8 a[4*1024];", ".global .b8 a[4 1024];",
        ".global .b8 a[-1];", ".global .b8 a[99999999999999999999];",
        ".global .b8 a[0xffffffffffffffff]; .global .b8 b[4096];",
        ".global .u64 a[0x2000000000000000];", ".global .align 3 .b8 a[4];", "#define N 4\n",
        ".pragma \"a\\\"; .global .b8 a[4];", "// \r/*\n.global .b8 a[4];\n// */",
        ".global .attribute(;) .b8 a[4];", ".global .b8 = 4;",
        ".section s { .global .b8 x = } .global .b8 a[4];", ".global .b8 a = .global .b8 b[4];"})
    EXPECT_EQ(variables_of(text), kFailed) << text;
}

TEST(PtxVariables, BytesBeforeTheTextAreNotRead) {
  const std::string memory = "\\\"";
  uint64_t bytes = 0;
  const char* error = nullptr;
  EXPECT_TRUE(images::measure_ptx_variables(std::string_view(memory).substr(1), bytes, error));
}

constexpr uint32_t kCode = 2, kShared = 3, kSecondShared = 5;  // sections of cubin()

// A cubin with variables, code, and shared memory. `change` may change its sections.
std::string cubin(
    uint64_t variable_bytes, uint64_t align = 4, uint64_t shared_bytes = 48 << 10,
    const std::function<void(Elf64_Shdr*)>& change = [](Elf64_Shdr*) {}) {
  const std::string names("\0.nv.global\0.text.k\0.nv.shared.k\0", 33);
  constexpr uint16_t kSections = 6;
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64;
  h.e_ident[EI_DATA] = ELFDATA2LSB;
  h.e_machine = 190;
  h.e_ehsize = sizeof h;
  h.e_shentsize = sizeof(Elf64_Shdr);
  h.e_shoff = sizeof h;
  h.e_shnum = kSections;
  h.e_shstrndx = 4;
  uint64_t end = sizeof h + kSections * sizeof(Elf64_Shdr);
  Elf64_Shdr sections[kSections]{};
  sections[1] = {1, SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0, 0, variable_bytes, 0, 0, align, 0};
  sections[kCode] = {12, SHT_PROGBITS, SHF_ALLOC, 0, end, 16, 0, 0, 4, 0};
  sections[kShared] = {20, SHT_NOBITS, SHF_ALLOC, 0, 0, shared_bytes, 0, kCode, 4, 0};
  sections[4] = {0, SHT_STRTAB, 0, 0, end + 16, names.size(), 0, 0, 1, 0};
  change(sections);
  return std::string((char*)&h, sizeof h) + std::string((char*)sections, sizeof sections) +
         std::string(16, 'c') + names;
}

TEST(CubinMemory, VariablesAndCodeCountAndSharedMemoryDoesNot) {
  std::string file = cubin(kMiB);
  ASSERT_TRUE(images::valid_elf(file, images::Machine::gpu));
  EXPECT_EQ(images::elf_memory_bytes(file), kMiB + 256);
  EXPECT_EQ(images::elf_memory_bytes(cubin(UINT64_MAX)), UINT64_MAX);
}

TEST(CubinMemory, AlignmentOfASectionCounts) {
  EXPECT_EQ(images::elf_memory_bytes(cubin(1, 2 * kMiB)), 2 * kMiB + 256);
  EXPECT_EQ(images::elf_memory_bytes(cubin(1, 3)), UINT64_MAX);
}

TEST(CubinMemory, SectionThatIsTooLargeForSharedMemoryCounts) {
  EXPECT_EQ(images::elf_memory_bytes(cubin(256, 4, 2 * kMiB)), 2 * kMiB + 512);
}

// Sections with the name of shared memory, which is one for each function and has no content.
TEST(CubinMemory, SectionThatIsNoSharedMemoryOfAFunctionCounts) {
  const std::vector<std::function<void(Elf64_Shdr*)>> kChanges = {
      [](Elf64_Shdr* s) { s[kShared].sh_info = 0; },
      [](Elf64_Shdr* s) { s[kShared].sh_info = 1; },
      [](Elf64_Shdr* s) { s[kShared].sh_info = 99; },
      [](Elf64_Shdr* s) { s[kShared].sh_type = 0x7000000a; },
      [](Elf64_Shdr* s) { s[kSecondShared] = s[kShared]; },
  };
  constexpr uint64_t kBytes = 64;
  for (auto& change : kChanges) {
    std::string file = cubin(256, 4, kBytes, change);
    EXPECT_TRUE(images::valid_elf(file, images::Machine::gpu));
    EXPECT_EQ(images::elf_memory_bytes(file), 256u + 256 + 256) << &change - kChanges.data();
  }
}

std::string entry(images::EntryKind kind, uint32_t arch, const std::string& content) {
  std::string header(64, '\0');
  auto put = [&](size_t at, auto value) {
    std::memcpy(header.data() + at, &value, sizeof value);
  };
  put(0, kind);
  put(4, (uint32_t)header.size());
  put(8, (uint64_t)content.size());
  put(28, arch);
  return header + content;
}

TEST(ImageMemory, LargestEntryOfAFatBinaryCounts) {
  std::string entries = entry(images::EntryKind::ptx, 70, ".global .b8 a[8192];") +
                        entry(images::EntryKind::ptx, 80, ".global .b8 a[4096];") +
                        entry(images::EntryKind::intermediate, 90, "of the linker") +
                        entry(images::EntryKind::machine_code, 90, cubin(kMiB));
  std::string image = images::fatbin_header(entries.size()) + entries;
  std::vector<images::FatbinEntry> read;
  ASSERT_TRUE(images::read_fatbin(image, read));
  uint64_t bytes = 0;
  const char* error = nullptr;
  EXPECT_EQ(measure_image(image, false, bytes, error), CUDA_SUCCESS);
  EXPECT_EQ(bytes, kMiB + 256);
  EXPECT_EQ(measure_image(image, true, bytes, error), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 8192u);
}

TEST(ImageMemory, CodeThatADriverCompilesCounts) {
  std::string text = ".global .b8 a[8192];" + std::string(5000, ' ');
  uint64_t bytes = 0;
  const char* error = nullptr;
  EXPECT_EQ(measure_image(text, false, bytes, error), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 8192u + 2 * text.size());
  EXPECT_EQ(measure_image(text, true, bytes, error), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 8192u) << "the software GPU keeps code in host memory";
}

// A driver with two devices that notes where memory is allocated.
CUdevice g_current = 0, g_allocated_on = -1;
size_t g_limit = 1024;

class PlacementTest : public testing::Test {
 protected:
  PlacementTest() {
    g_current = 0;
    g_allocated_on = -1;
    t.session->devices = {{0, 0, {}}, {1, 1, {}}};
    t.cu.software = false;
    t.cu.cuCtxGetDevice = [](CUdevice* d) {
      *d = g_current;
      return CUDA_SUCCESS;
    };
    t.cu.cuCtxGetCurrent = [](CUcontext* c) {
      *c = (CUcontext)(uintptr_t)(g_current + 1);
      return CUDA_SUCCESS;
    };
    t.cu.cuDevicePrimaryCtxRetain = [](CUcontext* c, CUdevice d) {
      *c = (CUcontext)(uintptr_t)(d + 1);
      return CUDA_SUCCESS;
    };
    t.cu.cuCtxSetCurrent = [](CUcontext c) {
      g_current = (CUdevice)(uintptr_t)c - 1;
      return CUDA_SUCCESS;
    };
    t.cu.cuMemAlloc = [](CUdeviceptr* at, size_t) {
      g_allocated_on = g_current;
      *at = 0x1000;
      return CUDA_SUCCESS;
    };
    t.cu.cuCtxGetLimit = [](size_t* value, CUlimit) {
      *value = g_limit;
      return CUDA_SUCCESS;
    };
    t.cu.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
      *value = 100;  // multiprocessors, and threads of each
      return CUDA_SUCCESS;
    };
    t.cu.cuCtxSetLimit = [](CUlimit, size_t value) {
      return value == 5 * kMiB ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    };
    t.cu.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
      *value = 2048;
      return CUDA_SUCCESS;
    };
  }
  TemporaryFolder folder;
  TestSession t;
};

TEST_F(PlacementTest, MemoryIsAllocatedOnTheNamedDevice) {
  struct __attribute__((packed)) {
    uint64_t reply = 1;
    uint32_t device = 1, zero = 0;
    uint64_t bytes = 4096;
  } record;
  fuzz::OwnLauncher(folder.path(), {kMiB, kMiB}).connect(t.account);
  handlers::allocate(*t.session, wire::Decoder((uint8_t*)&record, sizeof record));
  EXPECT_EQ(g_allocated_on, 1);
  EXPECT_EQ(g_current, 0);
  EXPECT_EQ(t.account.charged_here(1), 4096u);
}

TEST_F(PlacementTest, LimitsAreChargedByTheirChange) {
  ContextLimits& limits = t.session->limits;
  EXPECT_EQ(limits.set(0, CU_LIMIT_MALLOC_HEAP_SIZE, 9 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(t.account.charged_here(0), 9 * kMiB - 4096);  // the default is below one page
  EXPECT_EQ(limits.set(0, CU_LIMIT_MALLOC_HEAP_SIZE, 1024), CUDA_SUCCESS);
  EXPECT_EQ(t.account.charged_here(0), 0u);
  EXPECT_EQ(limits.set(0, CU_LIMIT_MALLOC_HEAP_SIZE, 5 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(t.account.charged_here(0), 0u);
  EXPECT_EQ(limits.set(0, CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
  EXPECT_GE(t.account.charged_here(0), 3072u * 100 * 100 - 4096);
  EXPECT_EQ(limits.set(0, CU_LIMIT_STACK_SIZE, 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(limits.set(0, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4096),
            CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST_F(PlacementTest, StacksOfAFunctionStayCharged) {
  ContextLimits& limits = t.session->limits;
  EXPECT_EQ(limits.admit(0, nullptr), CUDA_SUCCESS);
  uint64_t charged = t.account.charged_here(0);
  EXPECT_GE(charged, 1024u * 100 * 100 - 4096);
  EXPECT_EQ(limits.set(0, CU_LIMIT_STACK_SIZE, 512), CUDA_SUCCESS);
  EXPECT_EQ(t.account.charged_here(0), charged);
}

}  // namespace
}  // namespace busbar::server

/* Compiler options reach the compiler: a register limit via linker and load, and the error log.
 * Names without linkage belong to one of the linked texts.
 */
#include "check.h"

/* nvcc calls the strings of each text $str. */
#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define LOCAL(value)                    \
  ".global .align 4 .u32 $str = " value \
  ";\n.func (.reg .u32 r) read()\n"     \
  "{ ld.global.u32 r, [$str]; ret; }\n"
static const char* FIRST = HEAD LOCAL("40") "// $str\n.extern .func (.reg .u32 r) second();\n"
  ".visible .entry both(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<2>;\n"
  "ld.param.u64 %rd1, [p]; call (%r1), read, (); call (%r2), second, ();\n"
  "add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret;\n}\n";
static const char* SECOND =
    HEAD LOCAL("2") ".visible .func (.reg .u32 r) second()\n{ call (r), read, (); ret; }\n";

static void local_names(void) {
  CUlinkState l;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  void* image;
  size_t bytes;
  int sum = 0;
  OK(cuLinkCreate(0, 0, 0, &l));
  OK(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)FIRST, strlen(FIRST) + 1, "first", 0, 0, 0));
  OK(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)SECOND, strlen(SECOND) + 1, "second", 0, 0, 0));
  OK(cuLinkComplete(l, &image, &bytes));
  OK(cuModuleLoadData(&m, image));
  OK(cuLinkDestroy(l));
  OK(cuModuleGetFunction(&f, m, "both"));
  OK(cuMemAlloc(&p, sizeof sum));
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void*[]){&p}, 0));
  OK(cuMemcpyDtoH(&sum, p, sizeof sum));
  printf("sum of the texts' variables: %d%s\n", sum, sum == 42 ? "" : " WRONG");
}

static int registers(const void* image, unsigned n, CUjit_option* options, void** values) {
  CUmodule m;
  CUfunction f;
  int count;
  OK(cuModuleLoadDataEx(&m, image, n, options, values));
  OK(cuModuleGetFunction(&f, m, "bump"));
  OK(cuFuncGetAttribute(&count, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
  OK(cuModuleUnload(m));
  return count;
}

int main(void) {
  CUlinkState l;
  void* image;
  size_t bytes;
  char log[1024] = "";
  CUjit_option limit[] = {CU_JIT_MAX_REGISTERS},
               with_log[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_MAX_REGISTERS,
                             CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *sixteen[] = {(void*)16}, *logged[] = {log, (void*)16, (void*)sizeof log};
  create_context();
  OK(cuLinkCreate(1, limit, sixteen, &l));
  OK(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)PTX, strlen(PTX) + 1, "bump", 0, 0, 0));
  OK(cuLinkComplete(l, &image, &bytes));
  printf("linked: within the limit %d\n", registers(image, 0, 0, 0) <= 16);
  OK(cuLinkDestroy(l));
  printf("loaded: no more than without a limit %d\n",
         registers(PTX, 1, limit, sixteen) <= registers(PTX, 0, 0, 0));
  CUmodule m;
  SHOW(cuModuleLoadDataEx(
      &m, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry bad( { ret }\n", 3,
      with_log, logged));
  printf("the log has a message: %d\n", log[0] != 0);
  local_names();
  return 0;
}

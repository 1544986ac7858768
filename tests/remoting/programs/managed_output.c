/* A program that writes managed memory to stdout while a kernel prints: the fault in the call of
 * the C library, which holds the lock of stdout, waits for the kernel and so for its output.
 */
#include "check.h"

enum { LINES = 5000, BYTES = 1000, ROUNDS = 5 };
static char buffer[1 << 16];

static const char* PRINTING_PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 line[10] = {120,120,120,120,120,120,120,120,10,0};\n"
    ".visible .entry print(.param .u32 lines)\n{\n"
    ".reg .b64 %f; .reg .b32 %i, %n; .reg .pred %p;\n"
    "ld.param.u32 %n, [lines]; mov.u64 %f, line; cvta.global.u64 %f, %f; mov.u32 %i, 0;\n"
    "L: { .param .b64 p; .param .b64 q; .param .b32 r;\n"
    "st.param.b64 [p], %f; st.param.b64 [q], 0; call.uni (r), vprintf, (p, q); }\n"
    "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L; ret;\n}\n";

int main(void) {
  CUmodule m;
  CUfunction print;
  CUdeviceptr managed;
  unsigned lines = LINES;
  void* params[] = {&lines};
  create_context();
  OK(cuModuleLoadData(&m, PRINTING_PTX));
  OK(cuModuleGetFunction(&print, m, "print"));
  OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  for (int i = 0; i < ROUNDS; ++i) {
    OK(cuMemsetD8(managed, 'y', BYTES));
    OK(cuLaunchKernel(print, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
    fwrite((void*)managed, 1, BYTES, stdout);
    OK(cuCtxSynchronize());
  }
  return 0;
}

/* Compiler options reach the compiler: a register limit via linker and load, and the error log. */
#include "check.h"

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
  return 0;
}

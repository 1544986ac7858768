/* Shared by the conformance programs, which must print the same directly on the driver and remoted.
 * OK exits if a call fails; SHOW prints the result of a call.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                            \
  do {                                      \
    CUresult r_ = (call);                   \
    if (r_) {                               \
      printf("%s -> %d\n", #call, (int)r_); \
      exit(1);                              \
    }                                       \
  } while (0)
#define SHOW(call) printf("%s -> %d\n", #call, (int)(call))

static const char* PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    /* p[i] += v, `rounds` times; many rounds make the kernel slow */
    ".visible .entry bump(.param .u64 p, .param .u32 n, .param .u32 v, .param .u32 rounds)\n{\n"
    ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [v]; "
    "ld.param.u32 %r8, [rounds];\n"
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; "
    "mad.lo.u32 %r6, %r3, %r4, %r5;\n"
    "setp.ge.u32 %p1, %r6, %r1; @%p1 bra DONE;\n"
    "mul.wide.u32 %rd2, %r6, 4; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r7, [%rd3];\n"
    "MORE: add.u32 %r7, %r7, %r2; sub.u32 %r8, %r8, 1; setp.ne.u32 %p2, %r8, 0; @%p2 bra MORE;\n"
    "st.global.u32 [%rd3], %r7;\nDONE: ret;\n}\n"
    ".visible .entry wild(.param .u64 p)\n{\n.reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1; ret;\n}\n";

static CUcontext context __attribute__((unused));
static CUmodule module __attribute__((unused));
static CUfunction bump __attribute__((unused)), wild __attribute__((unused));

__attribute__((unused)) static void create_context(void) {
  CUdevice d;
  OK(cuInit(0));
  OK(cuDeviceGet(&d, 0));
  OK(cuDevicePrimaryCtxRetain(&context, d));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, PTX));
  OK(cuModuleGetFunction(&bump, module, "bump"));
  OK(cuModuleGetFunction(&wild, module, "wild"));
}

__attribute__((unused)) static CUresult launch_bump(CUdeviceptr p, unsigned n, unsigned v,
                                                    unsigned rounds, CUstream s) {
  void* params[] = {&p, &n, &v, &rounds};
  return cuLaunchKernel(bump, (n + 255) / 256, 1, 1, 256, 1, 1, 0, s, params, 0);
}

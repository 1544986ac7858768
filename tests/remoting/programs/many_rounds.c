/* Kernels whose results are checked: many_rounds VALUE ROUNDS. Prints "ready", begins after a line
 * of input, prints "passed", and ends with its input. */
#include "check.h"

enum { N = 32, KERNELS = 4, STEPS = 20000 };

static const char* STEP =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry step(.param .u64 p, .param .u32 steps)\n{\n.reg .pred q;\n.reg .b32 r<4>;\n"
    ".reg .b64 d<4>;\n"
    "ld.param.u64 d1, [p];\nld.param.u32 r1, [steps];\nmov.u32 r2, %tid.x;\n"
    "mul.wide.u32 d2, r2, 4;\nadd.u64 d1, d1, d2;\nld.global.u32 r3, [d1];\n"
    "MORE:\nmad.lo.u32 r3, r3, 1664525, 1013904223;\nsub.u32 r1, r1, 1;\nsetp.ne.u32 q, r1, 0;\n"
    "@q bra MORE;\nst.global.u32 [d1], r3;\nret;\n}\n";

static CUfunction step;
static CUdeviceptr p;
static CUstream s;

static void prepare(unsigned value) {
  CUmodule m;
  create_context();
  OK(cuModuleLoadData(&m, STEP));
  OK(cuModuleGetFunction(&step, m, "step"));
  OK(cuMemAlloc(&p, N * 4));
  OK(cuMemsetD32(p, value, N));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSynchronize());
}

/* Lets kernels change all words, and compares them with what the host computes. */
static unsigned check_round(unsigned value) {
  unsigned back[N], steps = STEPS;
  void* params[] = {&p, &steps};
  for (unsigned i = 0; i < KERNELS; ++i)
    OK(cuLaunchKernel(step, 1, 1, 1, N, 1, 1, 0, s, params, 0));
  OK(cuMemcpyDtoHAsync(back, p, sizeof back, s));
  for (unsigned i = 0; i < KERNELS * STEPS; ++i) value = value * 1664525u + 1013904223u;
  OK(cuStreamSynchronize(s));
  for (unsigned i = 0; i < N; ++i)
    if (back[i] != value) {
      printf("WRONG at %u: %u, expected %u\n", i, back[i], value);
      exit(1);
    }
  return value;
}

static void say(const char* text) {
  printf("%s\n", text);
  fflush(stdout);
}

int main(int n, char** v) {
  if (n != 3) return 2;
  unsigned value = (unsigned)atoi(v[1]);
  prepare(value);
  say("ready");
  getchar();
  for (int i = 0; i < atoi(v[2]); ++i) value = check_round(value);
  say("passed");
  while (getchar() != EOF) {
  }
  return 0;
}

/* Compiler options reach the compiler: a register limit via linker and load, and the error log.
 * Names without linkage belong to one of the linked texts.
 */
#include "check.h"

/* nvcc calls the strings of each text $str. */
#define HEAD_OF(target) ".version 7.0\n.target " target "\n.address_size 64\n"
#define HEAD HEAD_OF("sm_70")
#define LOCAL(value)                    \
  ".global .align 4 .u32 $str = " value \
  ";\n.func (.reg .u32 r) read()\n"     \
  "{ ld.global.u32 r, [$str]; ret; }\n"
#define KERNEL(body)                                                                  \
  ".visible .entry both(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<2>;\n" body \
  " ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r3; ret;\n}\n"
#define RETURNS ".func (.reg .u32 r) second()"

/* Texts of which the kernel `both` writes 42, or whose link fails because of a name. */
static const struct linked {
  const char* title;
  const char* texts[3];
  const char *undefined, *refused; /* that name */
} LINKED[] = {
    {"strings",
     {HEAD LOCAL("40") "// $str\n.extern " RETURNS ";\n" KERNEL(
          "call (%r1), read, (); call (%r2), second, (); add.u32 %r3, %r1, %r2;"),
      HEAD LOCAL("2") ".visible " RETURNS "\n{ call (r), read, (); ret; }\n"}},
    {"variables of a list",
     {HEAD ".global .u32 y[2] = {1, 2}, x = 42;\n" KERNEL("ld.global.u32 %r3, [x];"),
      HEAD ".global .u32 x = 2, y = 3;\n"}},
    {"a kernel and a variable", {HEAD ".global .u32 both = 1;\n", HEAD KERNEL("mov.u32 %r3, 42;")}},
    {"an external variable and a local one",
     {HEAD ".extern .global .u32 other;\n" KERNEL("ld.global.u32 %r3, [other];"),
      HEAD ".global .u32 other = 42;\n"},
     "other"},
    {"an external function and a local one",
     {HEAD ".extern " RETURNS ";\n" KERNEL("call (%r3), second, ();"),
      HEAD RETURNS "\n{ mov.u32 r, 42; ret; }\n"},
     "second"},
    {"the address of an undefined function",
     {HEAD ".extern " RETURNS ";\n.global .u64 f = second;\n", HEAD KERNEL("mov.u32 %r3, 42;")},
     "second"},
    {"undefined names that nothing uses",
     {HEAD ".extern " RETURNS ";\n.extern .global .u32 x;\n" KERNEL("mov.u32 %r3, 42;")}},
    {"a function of the driver",
     {HEAD ".extern .func (.param .b64 p) malloc(.param .b64 n);\n" KERNEL(
         "{ .param .b64 n; .param .b64 m; mov.u64 %rd1, 8; st.param.b64 [n], %rd1; "
         "call (m), malloc, (n); } mov.u32 %r3, 42;")}},
    {"an alias of a function",
     {HEAD RETURNS "\n{ mov.u32 r, 42; ret; }\n.visible .func (.reg .u32 r) other();\n"
                   ".alias other, second;\n",
      HEAD ".extern .func (.reg .u32 r) other();\n" KERNEL("call (%r3), other, ();")}},
    {"the address of an alias",
     {HEAD RETURNS "\n{ mov.u32 r, 42; ret; }\n.visible .func (.reg .u32 r) other();\n"
                   ".alias other, second;\n.global .u64 f = other;\n" KERNEL(
                       ".reg .b64 g; .reg .pred same; ld.global.u64 %rd1, [f]; mov.u64 g, second; "
                       "setp.eq.u64 same, g, %rd1; mov.u32 %r3, 1; "
                       "P: .callprototype (.reg .u32 r) _ (); @same call (%r3), %rd1, (), P;")}},
    {"a weak function before another one",
     {HEAD ".weak " RETURNS "\n{ mov.u32 r, 1; ret; }\n",
      HEAD ".visible " RETURNS "\n{ mov.u32 r, 42; ret; }\n" KERNEL("call (%r3), second, ();"),
      HEAD ".weak " RETURNS "\n{ mov.u32 r, 2; ret; }\n"}},
    {"a weak variable before another one",
     {HEAD ".weak .global .u32 x = 1;\n" KERNEL("ld.global.u32 %r3, [x];"),
      HEAD ".visible .global .u32 x = 42;\n", HEAD ".weak .global .u32 x = 2;\n"}},
    {"a function whose prototype is weak",
     {HEAD ".weak " RETURNS ";\n" RETURNS "\n{ mov.u32 r, 1; ret; }\n",
      HEAD ".visible " RETURNS ";\n" RETURNS
           "\n{ mov.u32 r, 42; ret; }\n" KERNEL("call (%r3), second, ();")}},
    {"a kernel whose prototype is weak",
     {HEAD ".weak .entry both(.param .u64 p);\n.entry both(.param .u64 p)\n{ ret; }\n",
      HEAD KERNEL("mov.u32 %r3, 42;")}},
    {"a weak function before two other ones",
     {HEAD ".weak " RETURNS "\n{ mov.u32 r, 1; ret; }\n",
      HEAD ".visible " RETURNS "\n{ mov.u32 r, 2; ret; }\n",
      HEAD ".visible " RETURNS "\n{ mov.u32 r, 42; ret; }\n" KERNEL("call (%r3), second, ();")},
     .refused = "second"},
    {"a weak variable before two other ones",
     {HEAD ".weak .global .u32 number = 1;\n", HEAD ".visible .global .u32 number = 2;\n",
      HEAD ".visible .global .u32 number = 42;\n" KERNEL("ld.global.u32 %r3, [number];")},
     .refused = "number"},
    {"a weak function with other parameters",
     {HEAD ".weak .func (.reg .u32 r) second(.reg .u32 p)\n{ mov.u32 r, p; ret; }\n",
      HEAD ".visible " RETURNS "\n{ mov.u32 r, 42; ret; }\n" KERNEL("call (%r3), second, ();")},
     .refused = "second"},
    {"a weak variable of another type",
     {HEAD ".weak .global .f32 x = 0f3F800000;\n" KERNEL("ld.global.u32 %r3, [x];"),
      HEAD ".visible .global .u32 x = 42;\n"}},
    {"a weak variable of another size",
     {HEAD ".weak .global .u64 number = 1;\n",
      HEAD ".visible .global .u32 number = 42;\n" KERNEL("ld.global.u32 %r3, [number];")},
     .refused = "number"},
    {"a weak variable of another space",
     {HEAD ".weak .const .u32 number = 1;\n",
      HEAD ".visible .global .u32 number = 42;\n" KERNEL("ld.global.u32 %r3, [number];")},
     .refused = "number"},
    {"an external variable of another size",
     {HEAD ".extern .global .u64 number;\n" KERNEL("ld.global.u32 %r3, [number];"),
      HEAD ".visible .global .u32 number = 42;\n"},
     .refused = "number"},
    {"an external variable without a size",
     {HEAD ".extern .global .u32 x[];\n" KERNEL("ld.global.u32 %r3, [x+4];"),
      HEAD ".visible .global .u32 x[2] = {1, 42};\n"}},
    {"a common variable before a larger one",
     {HEAD ".common .global .u32 x;\n" KERNEL("ld.global.u32 %r3, [x+4];"),
      HEAD ".visible .global .u32 x[2] = {1, 42};\n"}},
    {"a common variable before a larger one without a value",
     {HEAD ".common .global .u32 number;\n" KERNEL("ld.global.u32 %r3, [number];"),
      HEAD ".visible .global .u32 number[2];\n"},
     .refused = "number"},
    {"a common variable behind a larger one without a value",
     {HEAD ".visible .global .u32 number[2];\n",
      HEAD ".common .global .u32 number;\n" KERNEL("ld.global.u32 %r3, [number];")},
     .refused = "number"},
    {"external variables of two sizes behind one without a size",
     {HEAD ".extern .global .u32 x[];\n" KERNEL("ld.global.u32 %r3, [x+4];"),
      HEAD ".extern .global .u32 x[4];\n", HEAD ".visible .global .u32 x[2] = {1, 42};\n"}},
    {"a common variable, an external one and a larger one",
     {HEAD ".common .global .u32 x;\n",
      HEAD ".extern .global .u32 x;\n" KERNEL("ld.global.u32 %r3, [x+4];"),
      HEAD ".visible .global .u32 x[2] = {1, 42};\n"}},
    {"a common variable, a larger one and an external one",
     {HEAD ".common .global .u32 number;\n", HEAD ".visible .global .u32 number[2] = {1, 42};\n",
      HEAD ".extern .global .u32 number;\n" KERNEL("ld.global.u32 %r3, [number];")},
     .refused = "number"},
    {"an element before a definition of another type",
     {HEAD
      ".extern .global .u64 x[2];\n" KERNEL("ld.global.u64 %rd1, x[1]; cvt.u32.u64 %r3, %rd1;"),
      HEAD ".visible .global .align 8 .u32 x[4] = {1, 2, 42};\n"}},
    {"an element behind a definition of another type",
     {HEAD ".visible .global .align 8 .u32 x[4] = {1, 2, 42};\n", HEAD
      ".extern .global .u64 x[2];\n" KERNEL("ld.global.u64 %rd1, x[1]; cvt.u32.u64 %r3, %rd1;")}},
    {"an element of a weak variable of another type",
     {HEAD ".weak .global .u64 x[2];\n" KERNEL(
          "mov.u32 %r1, 1; mov.u64 %rd1, x[%r1]; ld.global.u32 %r3, [%rd1];"),
      HEAD ".visible .global .u32 x[4] = {1, 2, 42};\n"}},
    {"a common variable behind a smaller one",
     {HEAD ".visible .global .u32 number = 42;\n" KERNEL("ld.global.u32 %r3, [number];"),
      HEAD ".common .global .u64 number;\n"},
     .refused = "number"},
    {"an alias with a body",
     {HEAD RETURNS "\n{ mov.u32 r, 1; ret; }\n"
                   ".visible .func (.reg .u32 r) other()\n{ mov.u32 r, 42; ret; }\n"
                   ".alias other, second;\n" KERNEL("call (%r3), other, ();")},
     .refused = "other"},
    {"an alias of a function without a body",
     {HEAD ".visible " RETURNS ";\n.visible .func (.reg .u32 r) other();\n"
           ".alias other, second;\n" KERNEL("call (%r3), other, ();")},
     .refused = "second"},
    {"an alias of nothing",
     {HEAD ".visible .func (.reg .u32 r) other();\n.alias other, second;\n" KERNEL(
         "call (%r3), other, ();")},
     .refused = "second"},
    {"an alias with other parameters",
     {HEAD RETURNS
      "\n{ mov.u32 r, 42; ret; }\n"
      ".visible .func (.reg .u32 r) other(.reg .u32 p);\n.alias other, second;\n" KERNEL(
          "call (%r3), second, ();")},
     .refused = "second"},
    {"an alias of a kernel",
     {HEAD ".visible .entry second()\n{ ret; }\n.visible .func other();\n"
           ".alias other, second;\n" KERNEL("mov.u32 %r3, 42;")},
     .refused = "second"},
    {"an alias that is a kernel",
     {HEAD ".visible .func second()\n{ ret; }\n.visible .entry other();\n"
           ".alias other, second;\n" KERNEL("mov.u32 %r3, 42;")},
     .refused = "other"},
    {"a variable called like an operator",
     {HEAD ".global .u32 generic = 1;\n",
      HEAD ".global .u32 generic = 42;\n"
           ".global .u64 list[2] = {// a\ngeneric(generic), generic/* b */ (generic)},\n"
           "p = /* c */ generic(generic);\n" KERNEL(
               "ld.global.u64 %rd1, [list+8]; ld.u32 %r3, [%rd1];")}},
    {"a variable called like an instruction",
     {HEAD ".global .u32 add = 1;\n",
      HEAD ".global .u32 add = 40;\n" KERNEL(
          "ld.global.u32 %r1, [add]; add /* a */ .u32 %r3, %r1, 2;")}},
    {"variables called like whole instructions",
     {HEAD ".global .u32 bra = 1, ret = 1;\n",
      HEAD ".global .u32 bra = 40, ret = 2;\n" KERNEL(
          ".reg .pred q; ld.global.u32 %r1, [bra]; ld.global.u32 %r2, [ret];"
          " setp.ne.u32 q, %r1, %r2; @!q ret; { bra L; } L: add.u32 %r3, %r1, %r2;")}},
    {"variables called like instructions behind line numbers",
     {HEAD ".global .u32 bra = 1, ret = 1;\n",
      HEAD ".global .u32 bra = 40, ret = 2;\n" KERNEL(
          " ld.global.u32 %r1, [bra]; ld.global.u32 %r2, [ret]; .loc 1 5 3 bra L; L:"
          " .loc 1 6 3 add.u32 %r3, %r1, %r2;") ".file 1 \"a.cu\"\n"}},
    {"a function called like an operator",
     {HEAD ".global .u32 generic = 1;\n",
      HEAD ".func (.reg .u32 r) // a, b,\ngeneric()\n{ mov.u32 r, 42; ret; }\n" KERNEL(
          "call (%r3), generic, ();")}},
    {"a function whose prototype is visible",
     {HEAD ".visible " RETURNS ";\n" RETURNS "\n{ mov.u32 r, 42; ret; }\n",
      HEAD ".extern " RETURNS ";\n" KERNEL("call (%r3), second, ();"),
      HEAD RETURNS "\n{ mov.u32 r, 1; ret; }\n"}},
    {"registers with a common part",
     {HEAD ".global .u32 r = 1;\n",
      HEAD ".global .u32 r = 2;\n" KERNEL(
          ".reg .b32 r <3>; mov.u32 r1, 40; ld.global.u32 r2, [r]; add.u32 %r3, r1, r2;")}},
    {"members of a set of registers",
     {HEAD ".global .u32 r1 = 1, r2 = 1;\n",
      HEAD ".global .u32 r1 = 2, r2 = 10;\n" KERNEL(
          "{ .reg .b32 r<2>; mov.u32 r1, 30; ld.global.u32 r0, [r2]; add.u32 %r1, r0, r1; } "
          "ld.global.u32 %r2, [r1]; add.u32 %r3, %r1, %r2;")}},
    {"a name with a percent sign",
     {HEAD ".global .u32 %x = 1;\n",
      HEAD ".global .u32 %x = 42;\n" KERNEL("ld.global.u32 %r3, [%x];")}},
    {"a variable called like an option of the target",
     {HEAD_OF("sm_70, texmode_unified") ".global .u32 texmode_unified = 1;\n",
      HEAD ".visible .global .u32 texmode_unified = 42;\n" KERNEL(
          "ld.global.u32 %r3, [texmode_unified];")}},
    {"a vector",
     {HEAD ".global .u32 v = 1;\n",
      HEAD ".global .u32 v = 2;\n" KERNEL(
          ".reg .v2 .b32 v; mov.u32 v.x, 40; mov.u32 v.y, 2; add.u32 %r3, v.x, v.y;")}},
};

static char link_log[1024];

/* Return whether a link failed as that of NVIDIA's driver does, and its log names what it lacks. */
static int lacks(CUresult r, const char* name) {
  char line[64];
  snprintf(line, sizeof line, "error   : Undefined reference to '%s'", name);
  return r == CUDA_ERROR_UNKNOWN && strstr(link_log, line);
}

static CUresult link_texts(const char* const* texts, CUmodule* m) {
  CUlinkState l;
  void *image, *values[] = {link_log, (void*)sizeof link_log};
  CUjit_option log[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  size_t bytes;
  CUresult r = CUDA_SUCCESS;
  link_log[0] = 0;
  OK(cuLinkCreate(2, log, values, &l));
  for (int i = 0; i < 3 && texts[i] && !r; ++i)
    r = cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)texts[i], strlen(texts[i]) + 1, "", 0, 0, 0);
  if (!r) r = cuLinkComplete(l, &image, &bytes);
  if (!r) OK(cuModuleLoadData(m, image));
  OK(cuLinkDestroy(l));
  return r;
}

/* Run `both`, which writes a number. */
static CUresult run(CUmodule m, int* number) {
  CUfunction f;
  CUdeviceptr p;
  OK(cuMemAlloc(&p, sizeof *number));
  CUresult r = cuModuleGetFunction(&f, m, "both");
  if (!r) r = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void*[]){&p}, 0);
  if (!r) r = cuMemcpyDtoH(number, p, sizeof *number);
  OK(cuMemFree(p));
  return r;
}

/* Return whether the link ends as it should. */
static int is_right(const struct linked* l, int* number) {
  CUmodule m;
  CUresult r = link_texts(l->texts, &m);
  if (l->undefined) return lacks(r, l->undefined);
  if (l->refused) return r && !lacks(r, l->refused) && strstr(link_log, l->refused);
  return !r && !run(m, number) && *number == 42;
}

static void linked_texts(void) {
  for (size_t i = 0; i < sizeof LINKED / sizeof *LINKED; ++i) {
    int number = 0;
    int right = is_right(&LINKED[i], &number);
    printf("%s: %d%s\n", LINKED[i].title, number, right ? "" : " WRONG");
  }
}

/* The host finds a variable without linkage. */
static void local_variable(void) {
  CUmodule m;
  CUdeviceptr x;
  int number = 0;
  OK(link_texts((const char* [3]){HEAD ".global .u32 x = 42;\n", HEAD ".global .u32 x = 1;\n"},
                &m));
  OK(cuModuleGetGlobal(&x, 0, m, "x"));
  OK(cuMemcpyDtoH(&number, x, sizeof number));
  printf("variable of the first text: %d%s\n", number, number == 42 ? "" : " WRONG");
}

/* Of several common variables the largest one counts. */
static void common_variable(void) {
  CUmodule m;
  CUdeviceptr x;
  size_t bytes = 0;
  OK(link_texts(
      (const char* [3]){HEAD ".common .global .u32 x;\n", HEAD ".common .global .u64 x;\n",
                        HEAD ".common .global .u32 x;\n"},
      &m));
  OK(cuModuleGetGlobal(&x, &bytes, m, "x"));
  printf("common variable: %zu bytes%s\n", bytes, bytes == 8 ? "" : " WRONG");
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
  linked_texts();
  local_variable();
  common_variable();
  return 0;
}

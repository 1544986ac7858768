/* The logs of loads and links: the instruction that the compiler refuses is named, a log without a
 * message is an empty string, and the options with the sizes get the number of bytes written. */
#include "check.h"

#define KERNEL(name, body) \
  ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " name "()\n{\n" body "ret;\n}\n"

static char errors[1024], info[1024];
static CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                                 CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
static void* values[4];

static void prepare(size_t room) {
  memset(errors, 'x', sizeof errors - 1);
  memset(info, 'x', sizeof info - 1);
  values[0] = (void*)room;
  values[1] = errors;
  values[2] = info;
  values[3] = (void*)sizeof info;
}

static void print(const char* name) {
  printf("%s: %u \"%s\", %u \"%s\"\n", name, (unsigned)(size_t)values[0], errors,
         (unsigned)(size_t)values[3], info);
}

static void load(const char* name, const char* ptx, size_t room) {
  CUmodule m;
  CUlibrary l;
  prepare(room);
  CUresult r = cuModuleLoadDataEx(&m, ptx, 4, options, values);
  printf("module %d, ", (int)r);
  print(name);
  if (!r) OK(cuModuleUnload(m));
  prepare(room);
  r = cuLibraryLoadData(&l, ptx, options, values, 4, 0, 0, 0);
  printf("library %d, ", (int)r);
  print(name);
  if (!r) OK(cuLibraryUnload(l));
}

static void link_inputs(const char* name, const char* ptx) {
  CUlinkState l;
  void* image;
  size_t bytes;
  prepare(sizeof errors);
  OK(cuLinkCreate(4, options, values, &l));
  OK(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)ptx, strlen(ptx) + 1, "input", 0, 0, 0));
  OK(cuLinkComplete(l, &image, &bytes));
  print(name);
  OK(cuLinkDestroy(l));
}

int main(void) {
  const char *good = KERNEL("good", ""),
             *refused = KERNEL("refused", ".reg .b32 r;\nmov.u32 r, %no_such_register;\n"),
             *malformed = ".version 8.0\n.target sm_80\n.visible .entry bad( { ret }\n";
  create_context();
  load("good", good, sizeof errors);
  load("refused", refused, sizeof errors);
  load("refused, little room", refused, 12);
  load("malformed", malformed, sizeof errors);
  link_inputs("good link", good);
  link_inputs("refused link", refused);
  return 0;
}

/* The logs of loads and links: the instruction that the compiler refuses is named, a log without a
 * message is an empty string, and the options with the sizes get the number of bytes written. */
#include <stdbool.h>

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

/* A log that does not fit is cut; its size is then all of the room. */
static void print(const char* name, size_t room) {
  size_t size = (unsigned)(size_t)values[0], length = strlen(errors);
  const char* line = strstr(errors, "line ");
  bool cut = size == room && length == room - 1;
  printf("%s: message of line %c, its size %d, information %u \"%s\"\n", name, line ? line[5] : '-',
         cut || size == length, (unsigned)(size_t)values[3], info);
}

/* The code of a library is needed when something in it is. */
static void use(CUlibrary l, const char* kernel) {
  CUmodule m;
  CUkernel k;
  SHOW(cuLibraryGetModule(&m, l));
  SHOW(cuLibraryGetKernel(&k, l, kernel));
  OK(cuLibraryUnload(l));
}

static void load(const char* name, const char* kernel, const char* ptx, size_t room) {
  CUmodule m;
  CUlibrary l;
  prepare(room);
  CUresult r = cuModuleLoadDataEx(&m, ptx, 4, options, values);
  printf("module %d, ", (int)r);
  print(name, room);
  if (!r) OK(cuModuleUnload(m));
  prepare(room);
  r = cuLibraryLoadData(&l, ptx, options, values, 4, 0, 0, 0);
  printf("library %d, ", (int)r);
  print(name, room);
  if (!r) use(l, kernel);
}

/* A refused input fails the link, when it is added or at the end. */
static void link_inputs(const char* name, const char* ptx) {
  CUlinkState l;
  void* image;
  size_t bytes;
  prepare(sizeof errors);
  OK(cuLinkCreate(4, options, values, &l));
  CUresult r = cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)ptx, strlen(ptx) + 1, "input", 0, 0, 0);
  if (!r) r = cuLinkComplete(l, &image, &bytes);
  printf("link %d, ", (int)r);
  print(name, sizeof errors);
  OK(cuLinkDestroy(l));
}

int main(void) {
  const char *good = KERNEL("good", ""),
             *refused = KERNEL("refused", ".reg .b32 r;\n.reg .b32 r;\n"),
             *malformed = ".version 8.0\n.target sm_80\n.visible .entry bad( { ret }\n";
  create_context();
  load("good", "good", good, sizeof errors);
  load("refused", "refused", refused, sizeof errors);
  load("refused, little room", "refused", refused, 12);
  load("malformed", "bad", malformed, sizeof errors);
  link_inputs("good link", good);
  link_inputs("refused link", refused);
  link_inputs("malformed link", malformed);
  return 0;
}

#include "softgpu/bounds/kernel_library.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace softgpu::bounds {

namespace {

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

// Runs a program of PATH and returns whether it succeeded.
bool run(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ)) return false;
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

std::string quoted(uint64_t value) {
  return std::to_string(value) + "ULL";
}

// Only the object is instrumented: the process that loads it has the sanitizer's runtime.
std::string compile(const std::string& text) {
  char folder[] = "/tmp/softgpu-bounds-XXXXXX";
  if (!mkdtemp(folder)) fail("no temporary folder");
  std::string base = std::string(folder) + "/kernel";
  std::ofstream(base + ".c") << text;
  const char* level = std::getenv("SOFTGPU_BOUNDS_OPTIMISATION");
  const char* define = std::getenv("SOFTGPU_BOUNDS_DEFINE");  // plants a fault
  bool compiled =
      run({"gcc", "-c", level ? level : "-O1", "-std=gnu11", "-fPIC", "-fvisibility=hidden",
           "-fno-strict-aliasing", "-fwrapv", "-fstack-clash-protection", "-ffp-contract=off", "-w",
           "-fsanitize=address", "-DSOFTGPU_WINDOW_BASE=" + quoted(SOFTGPU_WINDOW_BASE),
           "-DSOFTGPU_WINDOW_BYTES=" + quoted(SOFTGPU_WINDOW_BYTES),
           std::string("-D") + (define ? define : "SOFTGPU_BOUNDS"), "-o", base + ".o",
           base + ".c"}) &&
      run({"gcc", "-shared", "-o", base + ".so", base + ".o", "-lm"});
  if (!compiled) fail("the emitted C does not compile: " + base + ".c");
  unlink((base + ".c").c_str());
  unlink((base + ".o").c_str());
  return base + ".so";
}

}  // namespace

EmittedKernel load(const emit::KernelSource& source, const ptx::Module& module) {
  std::string path = compile(source.text);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(dlerror());
  unlink(path.c_str());
  rmdir(path.substr(0, path.rfind('/')).c_str());
  EmittedKernel kernel;
  kernel.run = (int (*)(Cta*))dlsym(library, "softgpu_kernel");
  kernel.frame_bytes = (uint64_t (*)(uint32_t))dlsym(library, "softgpu_frame_bytes");
  kernel.local_bytes = source.local_bytes;
  std::map<std::string, uint64_t> address;
  uint64_t end = SOFTGPU_WINDOW_BASE;
  for (auto& v : module.variables) {
    address[v.name] = end;
    end += (v.bytes + 63) & ~63ull;
  }
  for (auto& name : source.globals) kernel.globals.push_back(address.at(name));
  if (kernel.local_bytes > kLocalBytes || end > SOFTGPU_WINDOW_BASE + kGlobalBytes)
    fail("the kernel's variables do not fit the arenas");
  return kernel;
}

}  // namespace softgpu::bounds

// Calls every exported function with valid arguments, and with each argument bad in turn.
//
//   calls check [FUNCTION...]   one line a function: the result of each call
//   calls forms                 one line for each row of the cuGetProcAddress table
//   calls fuzz SEED CALLS       random arguments
//
// A child process executes the calls, so that a crash names its function. Results of a call include
// the error of the work that it submitted.
#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <random>

#include "function.h"
#include "objects.h"

namespace {
constexpr int kSecondsOfACall = 20;
constexpr int kFunctionsOfAChild = 60;

// What the child is doing; shared with the parent.
struct Progress {
  int next;
  uint64_t calls;
  char doing[256];
};
Progress* progress;

struct Arguments {
  uint64_t words[24] = {};
};

// One bad value of one argument.
struct Fault {
  std::string name;
  std::function<uint64_t(Objects&)> value;
};

void* buffer_of(size_t index) {
  static char* memory = (char*)mmap(nullptr, 24 * kBufferBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory + index * kBufferBytes;
}

// What the library calls back: a host function, a stream callback, or a size of shared memory.
uint64_t callback() {
  return 0;
}

void* symbol_of(const Function& f) {
  static void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  static void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  void* found = dlsym(f.nvml ? nvml : cuda, f.name);
  if (!found) {
    printf("%s is not exported\n", f.name);
    exit(1);
  }
  return found;
}

uint64_t valid(const Parameter& p, size_t index, Objects& objects) {
  std::string value = p.value;
  switch (p.form) {
    case 'h': return objects.get(value);
    case 'r': {
      CUcontext primary;
      OK(cuDevicePrimaryCtxRetain(&primary, 0));
      return 0;
    }
    case 'a': return objects.get(value);
    case 'n':
    case 'g':
    case 'k': return strtoull(p.value, nullptr, 0);
    case 'c': return (uint64_t)callback;
    case 'f': {
      float number = strtof(p.value, nullptr);
      uint64_t word = 0;
      memcpy(&word, &number, sizeof number);
      return word;
    }
    default:
      if (value == "null") return 0;
      memset(buffer_of(index), 0, kMemoryBytes);
      write_structure(value, objects, buffer_of(index));
      return (uint64_t)buffer_of(index);
  }
}

Arguments valid_arguments(const Function& f, Objects& objects) {
  Arguments a;
  for (size_t i = 0; i < f.parameters.size(); ++i) a.words[i] = valid(f.parameters[i], i, objects);
  return a;
}

bool starts(const char* name, const char* with) {
  return !strncmp(name, with, strlen(with));
}

// Undo what a call changed of the thread and of the capture of its stream.
void restore(const Function& f, const Arguments& a, Objects& objects) {
  if (starts(f.name, "cuCtxCreate") && a.words[0]) cuCtxDestroy(*(CUcontext*)a.words[0]);
  if (starts(f.name, "cuStreamBeginCapture")) {
    CUgraph g;
    auto s = (CUstream)a.words[0];
    cuStreamEndCapture(s || !strstr(f.name, "_ptsz") ? s : CU_STREAM_PER_THREAD, &g);
  }
  if (starts(f.name, "cuThreadExchange")) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
  }
  cuCtxSetCurrent(objects.context());
}

// Return the result of a call and its work.
int execute(const Function& f, void* symbol, const Arguments& a, Objects& objects) {
  ++progress->calls;
  int result = f.call(symbol, a.words);
  if (f.nvml || result) return result;
  restore(f, a, objects);
  return cuCtxSynchronize();
}

std::vector<Fault> faults_of(const Parameter& p) {
  std::vector<Fault> all;
  std::string kind = p.value;
  auto constant = [&](const char* name, uint64_t v) {
    all.push_back({name, [v](Objects&) { return v; }});
  };
  switch (p.form) {
    case 'h':
      constant("null", 0);
      if (kind.compare(0, 4, "nvml")) {
        all.push_back({"freed", [kind](Objects& o) { return o.freed(kind); }});
        all.push_back(
            {"kind", [kind](Objects& o) { return o.get(kind == "event" ? "stream" : "event"); }});
        all.push_back({"context", [kind](Objects& o) { return o.of_other_context(kind); }});
      }
      constant("never", 0x1230);
      break;
    case 'a': constant("null", 0); break;
    case 'n':
    case 'r':
      constant("0", 0);
      constant("1", 1);
      constant("half", 1ull << (8 * p.bytes - 1));
      constant("max", ~0ull);
      break;
    case 'g':
      constant("0", 0);
      constant("max", ~0ull);
      break;
    case 'f':
    case 'k': break;
    case 's':
      all.push_back({"ones", [](Objects&) {
                       memset(buffer_of(23), 0xff, 256);
                       return (uint64_t)buffer_of(23);
                     }});
      break;
    default:
      constant("null", 0);
      if (p.form == 'p' && kind != "out" && kind.compare(0, 4, "text"))
        all.push_back({"zeros", [](Objects&) {
                         memset(buffer_of(23), 0, kMemoryBytes);
                         return (uint64_t)buffer_of(23);
                       }});
  }
  return all;
}

void print_results(const Function& f, const Arguments& a) {
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    const Parameter& p = f.parameters[i];
    if (p.form != 'o' || !a.words[i]) continue;
    uint64_t value = 0;
    memcpy(&value, (void*)a.words[i], p.bytes);
    printf(" %s=%lld", p.name, (long long)value);
  }
}

void note(const Function& f, const char* parameter, const char* fault) {
  snprintf(progress->doing, sizeof progress->doing, "%s %s=%s", f.name, parameter, fault);
}

// Print the results of a function. The objects are new after a call that succeeded.
void check(const Function& f, Objects& objects) {
  void* symbol = symbol_of(f);
  note(f, "all", "valid");
  Arguments a = valid_arguments(f, objects);
  int result = execute(f, symbol, a, objects);
  printf("%s: valid %d", f.name, result);
  if (!result) print_results(f, a);
  for (size_t i = 0; i < f.parameters.size(); ++i)
    for (const Fault& fault : faults_of(f.parameters[i])) {
      note(f, f.parameters[i].name, fault.name.c_str());
      if (!result) objects.forget();
      a = valid_arguments(f, objects);
      a.words[i] = fault.value(objects);
      result = execute(f, symbol, a, objects);
      printf(", %s=%s %d", f.parameters[i].name, fault.name.c_str(), result);
      objects.recover();
    }
  note(f, "afterwards", "recover");
  cuCtxSetCurrent(objects.context());
  objects.forget();
  objects.recover();
  if (!objects.recover()) printf(", then the session FAILS");
  printf("\n");
  fflush(stdout);
}

const Function* find(const char* name) {
  for (const Function& f : kAllFunctions)
    if (!strcmp(f.name, name)) return &f;
  return nullptr;
}

void form(const Entry& e, Objects& objects) {
  void* symbol = nullptr;
  CUdriverProcAddressQueryResult found;
  int result = cuGetProcAddress_v2(e.base, &symbol, e.version, e.per_thread ? 2 : 1, &found);
  const Function* f = find(e.symbol);
  if (!result && f) {
    note(*f, "form", e.base);
    Arguments a = valid_arguments(*f, objects);
    result = execute(*f, symbol, a, objects);
    objects.forget();
    objects.recover();
  }
  printf("%s %d %d: %s %d\n", e.base, e.version, e.per_thread, e.symbol, result);
  fflush(stdout);
}

// Return whether a function can end the context or wait for ever with random arguments.
bool can_wait(const Function& f) {
  return starts(f.name, "cuStreamWaitValue") || starts(f.name, "cuStreamBatchMemOp");
}

// Return whether a successful call may end the context or the memory of the other calls.
bool ends_objects(const Function& f) {
  if (strstr(f.name, "Ctx")) return true;
  return strstr(f.name, "Destroy") || strstr(f.name, "Free") || strstr(f.name, "Unload") ||
         strstr(f.name, "Release") || strstr(f.name, "Unregister") || strstr(f.name, "Unmap") ||
         strstr(f.name, "Capture");
}

void random_call(std::mt19937_64& random, Objects& objects) {
  const Function& f = kAllFunctions[random() % kAllFunctions.size()];
  if (can_wait(f) || f.parameters.empty()) return;
  note(f, "random", "");
  Arguments a = valid_arguments(f, objects);
  for (uint64_t changed = 1 + random() % 3; changed; --changed) {
    size_t i = random() % f.parameters.size();
    std::vector<Fault> faults = faults_of(f.parameters[i]);
    if (faults.empty()) continue;
    const Fault& fault = faults[random() % faults.size()];
    note(f, f.parameters[i].name, fault.name.c_str());
    a.words[i] = fault.value(objects);
  }
  static std::map<const Function*, void*> symbols;
  void*& symbol = symbols[&f];
  if (!symbol) symbol = symbol_of(f);
  int result = execute(f, symbol, a, objects);
  if (result || !ends_objects(f)) return;
  objects.forget();
  objects.recover();
}

// Execute `work` in a child from progress->next on until it is `end`. Return false after a crash.
bool run_child(const std::function<void(Objects&)>& work) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Objects objects;
    work(objects);
    fflush(stdout);
    _exit(0);
  }
  int descriptor = (int)syscall(SYS_pidfd_open, child, 0), status = 0;
  for (uint64_t seen = ~0ull;;) {
    pollfd p{descriptor, POLLIN, 0};
    if (poll(&p, 1, kSecondsOfACall * 1000)) break;
    if (seen == progress->calls) {
      kill(child, SIGKILL);
      printf("HANG %s\n", progress->doing);
      break;
    }
    seen = progress->calls;
  }
  waitpid(child, &status, 0);
  close(descriptor);
  if (status) printf("\nCRASH %s: status %x\n", progress->doing, status);
  return status == 0;
}

// Run `one` for the numbers below `end`, each child some of them.
int run_all(int end, int of_a_child, const std::function<void(int, Objects&)>& one) {
  bool crashed = false;
  for (progress->next = 0; progress->next < end;) {
    int last = std::min(end, progress->next + of_a_child);
    crashed |= !run_child([&](Objects& objects) {
      while (progress->next < last) one(progress->next++, objects);
    });
  }
  return crashed;
}

int fuzz(uint64_t seed, uint64_t calls) {
  int children = (int)((calls + 9999) / 10000);
  return run_all(children, 1, [&](int child, Objects& objects) {
    std::mt19937_64 random(seed + (uint64_t)child);
    objects.keep();
    for (int i = 0; i < 10000; ++i) {
      random_call(random, objects);
      if (i % 100 == 0) objects.recover();
    }
    objects.recover();
    if (!objects.recover()) printf("the session FAILS with seed %lu\n", seed + (uint64_t)child);
  });
}
}  // namespace

int main(int count, char** words) {
  std::string action = count > 1 ? words[1] : "";
  progress = (Progress*)mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (action == "check" && count > 2)
    return run_all(count - 2, 1, [&](int i, Objects& o) { check(*find(words[2 + i]), o); });
  if (action == "check")
    return run_all((int)kAllFunctions.size(), kFunctionsOfAChild,
                   [](int i, Objects& o) { check(kAllFunctions[i], o); });
  if (action == "forms")
    return run_all((int)kEntries.size(), kFunctionsOfAChild,
                   [](int i, Objects& o) { form(kEntries[i], o); });
  if (action == "fuzz" && count == 4)
    return fuzz(strtoull(words[2], 0, 10), strtoull(words[3], 0, 10));
  fprintf(stderr, "usage: calls check [FUNCTION...] | forms | fuzz SEED CALLS\n");
  return 2;
}

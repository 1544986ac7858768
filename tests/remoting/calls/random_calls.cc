#include "random_calls.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "child.h"
#include "execution.h"

namespace {
constexpr uint64_t kCallsOfAChild = 100'000;
// Calls of one function in a row, with the same valid arguments beside the bad ones.
constexpr int kCallsInARow = 8;
// Successful calls between two checks that the context still works.
constexpr int kSuccessesUntilCheck = 64;
// Calls that return NOT_SUPPORTED before a function is called less often.
constexpr int kRefusalsUntilRare = 16;

// A function with the results of its calls so far.
struct Target {
  const Function* function;
  void* symbol = nullptr;
  std::vector<size_t> changeable;          // parameters that have bad values
  std::vector<std::vector<Fault>> faults;  // by parameter
  bool ends_context = false, ends_objects = false, changes_thread = false, sets_parameters = false;
  int refusals = 0;
  std::chrono::nanoseconds spent{0};  // on its calls and their arguments
};

// Return whether a call with random arguments can wait for ever.
bool can_wait(const Function& f) {
  return starts(f.name, "cuStreamWaitValue") || starts(f.name, "cuStreamBatchMemOp");
}

// Return whether a successful call may end objects of its arguments.
bool ends_objects(const Function& f) {
  for (const char* word :
       {"Destroy", "Free", "Unload", "Release", "Unregister", "Unmap", "Capture"})
    if (strstr(f.name, word)) return true;
  return false;
}

bool is_refusal(const Function& f, int result) {
  constexpr int kNvmlNotSupported = 3;
  return result == (f.nvml ? kNvmlNotSupported : (int)CUDA_ERROR_NOT_SUPPORTED);
}

// Return whether a function sets a parameter or the shape of later cuLaunch calls.
bool sets_parameters(const Function& f) {
  return starts(f.name, "cuParamSet") || starts(f.name, "cuFuncSetBlockShape");
}

// Return whether a fault is an object's handle, which may be an address of memory: after its
// registration as host memory, other calls may overwrite the object.
bool exposes_object(const Function& f, const Fault& fault) {
  return starts(f.name, "cuMemHostRegister") &&
         (fault.name == "kind" || fault.name == "context" || fault.name == "freed");
}

std::vector<Target> make_targets() {
  std::vector<Target> all;
  for (const Function& f : kAllFunctions) {
    Target t{&f};
    for (size_t i = 0; i < f.parameters.size(); ++i) {
      t.faults.push_back(random_faults_of(f.parameters[i]));
      std::erase_if(t.faults.back(), [&](auto& fault) { return exposes_object(f, fault); });
      if (!t.faults.back().empty()) t.changeable.push_back(i);
    }
    if (t.changeable.empty() || can_wait(f)) continue;
    t.symbol = symbol_of(f);
    t.sets_parameters = sets_parameters(f);
    t.ends_context = strstr(f.name, "Ctx");
    t.ends_objects = t.ends_context || ends_objects(f);
    t.changes_thread = t.ends_objects || starts(f.name, "cuThreadExchange");
    all.push_back(std::move(t));
  }
  return all;
}

class RandomCalls {
 public:
  RandomCalls(uint64_t seed, Objects& objects) : random_(seed), objects_(objects) {}

  // Call one function some times. Return the number of calls.
  int call_in_a_row() {
    Target& t = choose();
    if (t.refusals > kRefusalsUntilRare && random_() % 8) return 0;
    auto start = std::chrono::steady_clock::now();
    int calls = 1;
    try {
      calls = call_in_a_row(t);
    } catch (const CreationFailure&) {
      objects_.forget();
      objects_.recover();
    }
    t.spent += std::chrono::steady_clock::now() - start;
    return calls;
  }

 private:
  // Of two functions, the one on which less time was spent: code is loaded less often than a number
  // is read.
  Target& choose() {
    Target &a = targets_[random_() % targets_.size()], &b = targets_[random_() % targets_.size()];
    return a.spent < b.spent ? a : b;
  }

  int call_in_a_row(Target& t) {
    note(*t.function, "random", "");
    Arguments valid = valid_arguments(*t.function, objects_);
    for (int i = 1; i <= kCallsInARow; ++i)
      if (!call(t, valid)) return i;
    return kCallsInARow;
  }

  // Return false if the objects are no longer those of the valid arguments.
  bool call(Target& t, const Arguments& valid) {
    Arguments a = valid;
    for (uint64_t changed = 1 + random_() % 3; changed; --changed) make_bad(t, a);
    ++progress->calls;
    int result = t.function->call(t.symbol, a.words);
    if (t.sets_parameters) objects_.forget("shaped_function");  // its pointer may be a bad one
    t.refusals += is_refusal(*t.function, result);
    if (result || t.function->nvml) return true;
    if (t.changes_thread) restore(*t.function, a, objects_);
    if (t.ends_context) {
      objects_.forget_other_context();
      if (cuCtxSetCurrent(objects_.context()) && !objects_.recover()) return false;
    }
    if (t.ends_objects) forget_arguments(*t.function);
    if (++successes_ % kSuccessesUntilCheck == 0 && !objects_.recover()) return false;
    return !t.ends_objects;
  }

  void forget_arguments(const Function& f) {
    for (const Parameter& p : f.parameters)
      if (p.form == 'h') objects_.forget(p.value);
  }

  void make_bad(Target& t, Arguments& a) {
    size_t i = t.changeable[random_() % t.changeable.size()];
    const Fault& fault = t.faults[i][random_() % t.faults[i].size()];
    note(*t.function, t.function->parameters[i].name, fault.name.c_str());
    a.words[i] = fault.value(objects_);
  }

  std::mt19937_64 random_;
  Objects& objects_;
  std::vector<Target> targets_ = make_targets();
  int successes_ = 0;
};
}  // namespace

static void call_at_random(uint64_t seed, uint64_t calls, Objects& objects) {
  objects.keep();
  RandomCalls random(seed, objects);
  for (uint64_t done = 0; done < calls;) done += (uint64_t)random.call_in_a_row();
  objects.recover();
  if (!objects.recover()) printf("the session FAILS with seed %lu\n", seed);
}

// A child ends early when an error has ended all contexts. Those of a kernel are for ever, as
// NVIDIA says.
bool random_calls(uint64_t seed, uint64_t calls) {
  int children = (int)((calls + kCallsOfAChild - 1) / kCallsOfAChild);
  return run_all(children, 1, [&](int child, Objects& objects) {
    try {
      call_at_random(seed + (uint64_t)child, std::min(calls, kCallsOfAChild), objects);
    } catch (const CreationFailure& failure) {
      printf("LOST to error %d: seed %lu\n", (int)failure.result, seed + (uint64_t)child);
    }
  });
}

// Calls every exported function with valid arguments, with each argument bad in turn, and with each
// value that the headers declare for an argument.
//
//   calls check [FUNCTION...]   one line a function: the result of each call
//   calls forms                 one line for each row of the cuGetProcAddress table
//   calls fuzz SEED CALLS       random arguments
//
// Results of a call include the error of the work that it submitted.
#include <sys/mman.h>

#include "child.h"
#include "execution.h"
#include "random_calls.h"

namespace {
constexpr int kFunctionsOfAChild = 60;

void print_results(const Function& f, const Arguments& a) {
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    const Parameter& p = f.parameters[i];
    if (p.form != 'o' || !a.words[i]) continue;
    uint64_t value = 0;
    memcpy(&value, (void*)a.words[i], p.bytes);
    printf(" %s=%lld", p.name, (long long)value);
  }
}

std::vector<Fault> faults_and_forms(const Parameter& p) {
  std::vector<Fault> all = faults_of(p);
  for (const Form& form : p.forms)
    all.push_back({form.name, [&form](Objects&) { return form.value; }});
  return all;
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
    for (const Fault& fault : faults_and_forms(f.parameters[i])) {
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

}  // namespace

int main(int count, char** words) {
  std::string action = count > 1 ? words[1] : "";
  if (action == "check" && count > 2)
    return run_all(count - 2, 1, [&](int i, Objects& o) { check(*find(words[2 + i]), o); });
  if (action == "check")
    return run_all((int)kAllFunctions.size(), kFunctionsOfAChild,
                   [](int i, Objects& o) { check(kAllFunctions[i], o); });
  if (action == "forms")
    return run_all((int)kEntries.size(), kFunctionsOfAChild,
                   [](int i, Objects& o) { form(kEntries[i], o); });
  if (action == "fuzz" && count == 4)
    return random_calls(strtoull(words[2], 0, 10), strtoull(words[3], 0, 10));
  fprintf(stderr, "usage: calls check [FUNCTION...] | forms | fuzz SEED CALLS\n");
  return 2;
}

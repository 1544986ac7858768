#include "arguments.h"

#include <sys/mman.h>

#include <set>

namespace {
constexpr unsigned kWordsOfStructure = 16;

// A call with a number above the valid one reads on in the buffers behind, which are zero.
void* buffer_of(size_t index) {
  static char* memory =
      (char*)mmap(nullptr, 2 * kMaxParameters * kBufferBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory + index * kBufferBytes;
}

// The library calls it back as a host function, a stream callback, or a size of shared memory.
uint64_t callback() {
  return 0;
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

// Structures without pointers and handles: any value of their words is a wrong number at most.
bool has_numbers_only(const std::string& structure) {
  static const std::set<std::string> all = {"array_description",     "array3d_description",
                                            "allocation_properties", "access_description",
                                            "pool_properties",       "location"};
  return all.count(structure) != 0;
}

// The structure with one of its words replaced by `value`.
Fault wrong_word(const std::string& structure, unsigned word, uint64_t value) {
  return {"word", [=](Objects& o) {
            char* at = (char*)buffer_of(kMaxParameters - 1);
            memset(at, 0, kMemoryBytes);
            write_structure(structure, o, at);
            memcpy(at + 4 * word, &value, 4);
            return (uint64_t)at;
          }};
}
}  // namespace

Arguments valid_arguments(const Function& f, Objects& objects) {
  Arguments a;
  for (size_t i = 0; i < f.parameters.size(); ++i) a.words[i] = valid(f.parameters[i], i, objects);
  return a;
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
                       memset(buffer_of(kMaxParameters - 1), 0xff, 256);
                       return (uint64_t)buffer_of(kMaxParameters - 1);
                     }});
      break;
    default:
      constant("null", 0);
      if (p.form == 'p' && kind != "out" && kind.compare(0, 4, "text"))
        all.push_back({"zeros", [](Objects&) {
                         memset(buffer_of(kMaxParameters - 1), 0, kMemoryBytes);
                         return (uint64_t)buffer_of(kMaxParameters - 1);
                       }});
  }
  return all;
}

std::vector<Fault> random_faults_of(const Parameter& p) {
  static constexpr uint64_t kNarrow[] = {2, 255, 65536, 0x7fffffff, 0x80000001, 0xfffffffe};
  static constexpr uint64_t kWide[] = {2,          4097,         65536,    1ull << 48,
                                       ~0ull >> 1, ~0ull - 4095, ~0ull - 1};
  std::vector<Fault> all = faults_of(p);
  auto constant = [&](uint64_t v) {
    all.push_back({std::to_string(v), [v](Objects&) { return v; }});
  };
  if (p.form == 'n' && p.bytes == 8)
    for (uint64_t v : kWide) constant(v);
  else if (p.form == 'n')
    for (uint64_t v : kNarrow) constant(v);
  if (p.form == 'p' && has_numbers_only(p.value))
    for (unsigned word = 0; word < kWordsOfStructure; ++word)
      for (uint64_t v : kNarrow) all.push_back(wrong_word(p.value, word, v));
  return all;
}

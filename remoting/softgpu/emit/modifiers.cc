// Modifiers without an effect on this device. An emitter uses all others of its instruction, or the
// instruction is refused.
#include <algorithm>
#include <map>
#include <set>

#include "softgpu/emit/scope.h"

namespace softgpu::emit {

using ptx::Instruction;

namespace {

using Words = std::set<std::string>;

// There are no caches.
const Words kLoadCaching = {"ca", "cg", "cs", "lu", "cv", "nc", "unified"};
const Words kStoreCaching = {"wb", "cg", "cs", "wt"};
// Ordered accesses and fences are sequentially consistent for all threads of the device. A cluster
// is one thread block: no launch makes larger ones.
const Words kScopes = {"cta", "cluster", "gpu", "sys"};
const Words kFences = {"sc", "acq_rel", "acquire", "release", "mbarrier_init"};

// Modifiers of an opcode, apart from those of caches and scopes.
const std::map<std::string, Words> kOfOpcode = {
    {"activemask", {"b32"}},
    {"applypriority", {"global"}},
    {"atom", {"relaxed", "acquire", "release", "acq_rel", "noftz"}},
    {"bar", {"sync", "aligned", "cta"}},
    {"barrier", {"sync", "aligned", "cta"}},
    {"bra", {"uni"}},
    {"brx", {"idx", "uni"}},
    {"call", {"uni"}},
    {"cp", {"global", "ca", "cg"}},
    {"createpolicy", {"fractional", "range", "cvt", "L2", "global"}},
    {"discard", {"global", "L2"}},
    {"elect", {"sync"}},
    {"fence", kFences},
    {"griddepcontrol", {"wait", "launch_dependents"}},
    {"ld", {"weak"}},
    {"ldmatrix", {"sync", "aligned"}},
    {"match", {"sync"}},
    {"mbarrier", {"relaxed", "acquire", "release", "noComplete"}},
    {"membar", {"gl"}},
    {"mma", {"sync", "aligned", "row", "col"}},
    {"movmatrix", {"sync", "aligned"}},
    {"nanosleep", {"u32"}},
    {"pmevent", {"mask"}},
    {"prefetch", {"global", "local", "L1", "L2", "tensormap", "const", "param"}},
    {"prefetchu", {"L1"}},
    {"red", {"relaxed", "release", "noftz"}},
    {"redux", {"sync"}},
    {"ret", {"uni"}},
    {"setmaxnreg", {"inc", "dec", "sync", "aligned", "u32"}},
    {"shfl", {"sync"}},
    {"st", {"weak"}},
    {"stmatrix", {"sync", "aligned"}},
    {"vote", {"sync"}},
    // The fragments of wmma.mma do not depend on the layouts of their matrices.
    {"wmma", {"sync", "aligned", "row", "col"}},
};
const Words kWithScope = {"ld", "st", "atom", "red", "fence", "membar", "mbarrier", "tensormap"};
const Words kAccesses = {"ld",       "ldu",           "st",          "atom", "red", "cp",
                         "prefetch", "applypriority", "createpolicy"};

// An instruction has at most one of each.
const std::vector<Words> kAlternatives = {
    {"cta", "gpu", "sys", "cluster"},
    {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"},
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt"},
    {"inc", "dec"},
    {"aligned"},
    {"noftz"},
    {"noComplete"}};

int count(const Instruction& ins, const Words& words) {
  return (int)std::count_if(ins.mods.begin(), ins.mods.end(),
                            [&](auto& m) { return words.count(m) > 0; });
}

bool is_cache_hint(const std::string& word) {
  return word.rfind("L1::", 0) == 0 || word.rfind("L2::", 0) == 0;
}

bool has_no_effect(const std::string& op, const std::string& word) {
  if (auto it = kOfOpcode.find(op); it != kOfOpcode.end() && it->second.count(word)) return true;
  if (kAccesses.count(op) && is_cache_hint(word)) return true;
  if ((op == "ld" || op == "suld") && kLoadCaching.count(word)) return true;
  if ((op == "st" || op == "sust") && kStoreCaching.count(word)) return true;
  return kWithScope.count(op) && kScopes.count(word);
}

}  // namespace

void FunctionScope::end() const {
  const Instruction& ins = *instruction_;
  for (auto& words : kAlternatives)
    if (count(ins, words) > 1) reject("its modifiers exclude each other");
#ifdef SOFTGPU_PLANTED_UNUSED  // a test removes the check: the generated forms must find that
  return;
#endif
  for (size_t i = 0; i < ins.mods.size(); ++i) {
    bool used = i < ins.used.size() && ins.used[i];
    if (!used && !has_no_effect(ins.op, ins.mods[i])) refuse("modifier ." + ins.mods[i]);
  }
}

}  // namespace softgpu::emit

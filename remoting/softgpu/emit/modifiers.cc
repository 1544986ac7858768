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

// Words without an effect in an instruction that has one of `with`, unless it is empty, and none of
// `without`.
struct Hint {
  Words words, with = {}, without = {};
};

Words operator+(Words a, const Words& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// There are no caches.
const Words kL1 = {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                   "L1::no_allocate"};
const Words kL2Sizes = {"L2::64B", "L2::128B", "L2::256B"};
const Words kL2Evictions = {"L2::evict_last", "L2::evict_normal", "L2::evict_first"};
const Words kPolicy = {"L2::cache_hint"};
const Words kNotGlobal = {"shared", "shared::cta", "shared::cluster", "local",
                          "const",  "param",       "param::entry",    "param::func"};
const Words kNarrow = {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32"};
// Ordered accesses and fences are sequentially consistent for all threads of the device. A cluster
// is one thread block: no launch makes larger ones.
const Words kScopes = {"cta", "cluster", "gpu", "sys"};
const Words kOrders = {"relaxed", "acquire", "release", "acq_rel"};
const Words kStrong = kOrders + Words{"volatile"};
const Words kFences = {"sc", "acq_rel", "acquire", "release", "mbarrier_init"};
const Words kHalves = {"f16", "bf16", "f16x2", "bf16x2"};
const Words kGroups = {"commit_group", "wait_group", "wait_all", "mbarrier"};

const std::map<std::string, std::vector<Hint>> kHints = {
    {"activemask", {{{"b32"}}}},
    {"applypriority", {{{"global", "L2::evict_normal"}}}},
    {"atom", {{kOrders + kScopes}, {{"noftz"}, kHalves}, {kPolicy, {}, kNotGlobal}}},
    {"bar", {{{"sync"}, {}, {"arrive", "red"}}, {{"aligned"}}, {{"cta"}, {}, {"warp"}}}},
    {"barrier", {{{"sync"}, {}, {"arrive", "red"}}, {{"aligned", "cta"}}}},
    {"bra", {{{"uni"}}}},
    {"brx", {{{"idx", "uni"}}}},
    {"call", {{{"uni"}}}},
    {"cp",
     {{{"global", "ca", "cg"}, {}, kGroups + Words{"bulk"}},
      {kL2Sizes, {"ca", "cg"}, {"bulk"}},
      {kPolicy, {}, kGroups}}},
    {"createpolicy",
     {{Words{"fractional", "range", "cvt", "L2", "L2::evict_unchanged"} + kL2Evictions},
      {{"global"}, {"range"}}}},
    {"discard", {{{"global", "L2"}}}},
    {"elect", {{{"sync"}}}},
    {"fence", {{kFences + kScopes}}},
    {"griddepcontrol", {{{"wait", "launch_dependents"}}}},
    {"ld",
     {{{"weak"}, {}, {"nc"}},
      {{"nc"}, {"global"}, kStrong},
      {{"ca", "cg", "cs"}, {}, kStrong + kL1},
      {{"lu", "cv"}, {}, kStrong + kL1 + Words{"nc"}},
      {kScopes, kOrders},
      {kL1, {}, kNotGlobal + Words{"volatile"}},
      {kL2Sizes + kPolicy, {}, kNotGlobal},
      {kL2Evictions, {"v8"}, kNotGlobal},
      {kL2Evictions, {"v4"}, kNotGlobal + kNarrow}}},
    {"ldmatrix", {{{"sync", "aligned"}}}},
    {"match", {{{"sync"}}}},
    {"mbarrier",
     {{kOrders, {"cta", "cluster"}, {"init", "inval", "pending_count"}},
      {{"cta", "cluster"}, kOrders},
      {{"noComplete"}, {"arrive", "arrive_drop"}, {"expect_tx"}}}},
    {"membar", {{{"cta", "gl", "sys"}}}},
    {"mma", {{{"sync", "aligned", "row", "col"}}}},
    {"movmatrix", {{{"sync", "aligned"}}}},
    {"nanosleep", {{{"u32"}}}},
    {"pmevent", {{{"mask"}}}},
    {"prefetch",
     {{{"global", "local", "L1", "L2", "tensormap"}},
      {{"const", "param"}, {"tensormap"}},
      {{"L2::evict_last", "L2::evict_normal"}, {"global"}, {"L1", "L2"}}}},
    {"prefetchu", {{{"L1"}}}},
    {"red",
     {{Words{"relaxed", "release"} + kScopes}, {{"noftz"}, kHalves}, {kPolicy, {}, kNotGlobal}}},
    {"redux", {{{"sync"}}}},
    {"ret", {{{"uni"}}}},
    {"setmaxnreg", {{{"inc", "dec", "sync", "aligned", "u32"}}}},
    {"shfl", {{{"sync"}}}},
    {"st",
     {{{"weak"}},
      {{"wb", "cg", "cs", "wt"}, {}, kStrong + kL1},
      {kScopes, kOrders},
      {kL1, {}, kNotGlobal + Words{"volatile"}},
      {kPolicy, {}, kNotGlobal},
      {kL2Evictions, {"v8"}, kNotGlobal},
      {kL2Evictions, {"v4"}, kNotGlobal + kNarrow}}},
    {"stmatrix", {{{"sync", "aligned"}}}},
    {"suld", {{{"ca", "cg", "cs", "cv"}}}},
    {"sust", {{{"wb", "cg", "cs", "wt"}}}},
    {"tensormap", {{kScopes, {"cp_fenceproxy"}}}},
    {"vote", {{{"sync"}}}},
    // The fragments of wmma.mma do not depend on the layouts of their matrices.
    {"wmma", {{{"sync", "aligned", "row", "col"}}}},
};

// An instruction has at most one of each.
const std::vector<Words> kAlternatives = {
    {"cta", "gpu", "sys", "cluster", "gl"},
    {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"},
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt"},
    {"inc", "dec"},
    {"global", "local"},
    kL1,
    kL2Sizes,
    {"aligned"},
    {"noftz"},
    {"noComplete"}};

int count(const Instruction& ins, const Words& words) {
  return (int)std::count_if(ins.mods.begin(), ins.mods.end(),
                            [&](auto& m) { return words.count(m) > 0; });
}

bool has_no_effect(const Instruction& ins, const std::string& word) {
  auto hints = kHints.find(ins.op);
  if (hints == kHints.end()) return false;
  return std::any_of(hints->second.begin(), hints->second.end(), [&](const Hint& hint) {
    return hint.words.count(word) && (hint.with.empty() || count(ins, hint.with)) &&
           !count(ins, hint.without);
  });
}

// wmma.mma names the layouts of two matrices. ptxas takes `.sync` and `.uni` twice.
bool may_repeat(const Instruction& ins, const std::string& word) {
  if (word == "sync" || word == "uni") return true;
  return (word == "row" || word == "col") && ins.op == "wmma" && ins.has("mma") &&
         count(ins, {"row", "col"}) <= 2;
}

}  // namespace

void FunctionScope::end() const {
  const Instruction& ins = *instruction_;
  for (auto& words : kAlternatives)
    if (count(ins, words) > 1) reject("its modifiers exclude each other");
  if (ins.op == "wmma" && count(ins, {"row", "col"}) > (ins.has("mma") ? 2 : 1))
    reject("it has too many layouts");
#ifdef SOFTGPU_PLANTED_UNUSED  // a test removes the check: the generated forms must find that
  return;
#endif
  for (size_t i = 0; i < ins.mods.size(); ++i) {
    bool used = i < ins.used.size() && ins.used[i];
    if (used) continue;
    const std::string& word = ins.mods[i];
    bool repeated = std::find(ins.mods.begin(), ins.mods.end(), word) != ins.mods.begin() + (int)i;
    if (repeated && !may_repeat(ins, word)) reject("modifier ." + word + " is repeated");
    if (!has_no_effect(ins, word)) refuse("modifier ." + word);
  }
}

}  // namespace softgpu::emit

#include "softgpu/ptx/operand_rows.h"

#include <map>
#include <sstream>
#include <vector>

namespace softgpu::ptx {
namespace {

using Rows = std::vector<OperandRow>;

const Rows kOne = {{"", "=T T"}}, kTwo = {{"", "=T T T"}}, kThree = {{"", "=T T T T"}};
const Rows kMixed = {{"", "=F T F"}}, kPacked = {{"", "=I I I I"}}, kVideo = {{"", "=I Ic Ic Ic"}};
const Rows kProduct = {{"wide", "=W T T"}, {"", "=T T T"}};
const Rows kBits = {{"", "=I T"}}, kShift = {{"", "=T T I"}};
const Rows kBarrier = {{"warp", "I"},     {"red popc", "=I I I? P"}, {"red", "=P I I? P"},
                       {"arrive", "I I"}, {"cluster", nullptr},      {"", "I I?"}};

// The first row of which the instruction has all modifiers counts.
const std::map<std::string, Rows> kRows = {
    {"abs", kOne},
    {"activemask", {{"", "=B"}}},
    {"add", kMixed},
    {"addc", kTwo},
    {"and", kTwo},
    {"applypriority", {{"", "M N"}}},
    {"atom",
     {{"v2", nullptr}, {"v4", nullptr}, {"v8", nullptr}, {"cas", "=T_ M T T"}, {"", "=T_ M T"}}},
    {"bar", kBarrier},
    {"barrier", kBarrier},
    {"bfe", {{"", "=T T I I"}}},
    {"bfi", {{"", "=T T T I I"}}},
    {"bfind", kBits},
    {"bmsk", {{"", "=T I I"}}},
    {"brev", kOne},
    {"brkpt", {{"", ""}}},
    {"brx", {{"", "I X"}}},
    {"clz", kBits},
    {"cnot", kOne},
    {"copysign", kTwo},
    {"cos", kOne},
    {"cp",
     {{"bulk commit_group", ""},
      {"bulk wait_group", "N"},
      {"bulk prefetch tensor", "X"},
      {"bulk prefetch", "M I"},
      {"bulk multicast::cluster", nullptr},
      {"bulk tensor bulk_group", "X S"},
      {"bulk tensor", "S X S X?"},
      {"bulk cp_mask", nullptr},
      {"bulk bulk_group", "M S I"},
      {"bulk", "S M I S"},
      {"mbarrier", "M"},
      {"commit_group", ""},
      {"wait_group", "N"},
      {"wait_all", ""},
      {"", "M M N J?"}}},
    {"createpolicy", {{"fractional", "=L f?"}, {"cvt", "=L L"}, {"", nullptr}}},
    {"cvt",
     {{"pack", nullptr},
      {"rs", nullptr},
      {"f16x2 f32", "=F Tr Tr"},
      {"bf16x2 f32", "=F T T"},
      {"e4m3x2 f32", "=F T T"},
      {"e5m2x2 f32", "=F T T"},
      {"e3m2x2 f32", "=F T T"},
      {"e2m3x2 f32", "=F T T"},
      {"e2m1x2 f32", "=F T T"},
      {"ue8m0x2 f32", "=F T T"},
      {"tf32", "=F Tc"},
      {"bf16 f32", "=F T"},
      {"", "=Fr Trs"}}},
    {"cvta", {{"to", "=T T"}, {"", "=T Ty"}}},
    {"discard", {{"", "M N"}}},
    {"div", kTwo},
    {"dp2a", kPacked},
    {"dp4a", kPacked},
    {"elect", {{"", "=B| I"}}},
    {"ex2", kOne},
    {"exit", {{"", ""}}},
    {"fence", {{"tensormap::generic acquire", "M N"}, {"", ""}}},
    {"fma", {{"", "=F T T F"}}},
    {"fns", {{"", "=B B B B"}}},
    {"griddepcontrol", {{"", ""}}},
    {"isspacep", {{"", "=P A"}}},
    {"ld", {{"", "=Tre M"}}},
    {"ldu", {{"", "=Tre M"}}},
    {"lg2", kOne},
    {"lop3", {{"or", "=T_| T T T N P"}, {"and", "=T_| T T T N P"}, {"", "=T_ T T T N"}}},
    {"mad", {{"wide", "=W T T W"}, {"", "=T T T T"}}},
    {"mad24", kThree},
    {"madc", kThree},
    {"match", {{"all", "=I| T I"}, {"", "=I T I"}}},
    {"max", {{"", "=T T T T?"}}},
    {"mbarrier",
     {{"init", "M I"},
      {"inval", "M"},
      {"pending_count", "=I L"},
      {"arrive expect_tx", "=L_ M I"},
      {"arrive_drop expect_tx", "=L_ M I"},
      {"expect_tx", "M I"},
      {"complete_tx", "M I"},
      {"arrive", "=L_ M I?"},
      {"arrive_drop", "=L_ M I?"},
      {"test_wait parity", "=P M I"},
      {"test_wait", "=P M L"},
      {"try_wait parity", "=P M I I?"},
      {"try_wait", "=P M L I?"}}},
    {"membar", {{"", ""}}},
    {"min", {{"", "=T T T T?"}}},
    {"mov", {{"", "=Tv Tvsy"}}},
    {"movmatrix", {{"", "=B B"}}},
    {"mul", kProduct},
    {"mul24", kTwo},
    {"nanosleep", {{"", "I"}}},
    {"neg", kOne},
    {"not", kOne},
    {"or", kTwo},
    {"pmevent", {{"", "N"}}},
    {"popc", kBits},
    {"prefetch", {{"tensormap", nullptr}, {"", "M"}}},
    {"prefetchu", {{"", "M"}}},
    {"prmt", kThree},
    {"rcp", kOne},
    {"red", {{"v2", nullptr}, {"v4", nullptr}, {"v8", nullptr}, {"async", nullptr}, {"", "M T"}}},
    {"redux", {{"", "=T T I"}}},
    {"rem", kTwo},
    {"ret", {{"", ""}}},
    {"rsqrt", kOne},
    {"sad", kThree},
    {"selp", {{"", "=T T T P"}}},
    {"set", {{"", "=F T T P?"}}},
    {"setp", {{"", "=P_| T T P?"}}},
    {"shf", {{"", "=T T T I"}}},
    {"shfl", {{"", "=T| T B B I"}}},
    {"shl", kShift},
    {"shr", kShift},
    {"sin", kOne},
    {"slct", {{"", "=F F F T"}}},
    {"sqrt", kOne},
    {"st", {{"async", nullptr}, {"bulk", nullptr}, {"", "M Tre"}}},
    {"sub", kMixed},
    {"subc", kTwo},
    {"suld", {{"", "=Tre X"}}},
    {"suq", {{"", "=T X"}}},
    {"sured", {{"", "X Tr"}}},
    {"sust", {{"", "X Tre"}}},
    {"szext", {{"", "=T T I"}}},
    {"tanh", kOne},
    {"tex", {{"level", "=Fe| X X X? X?"}, {"grad", "=Fe| X X X X? X?"}, {"", "=Fe| X X? X?"}}},
    {"tensormap", {{"replace", "M X X?"}, {"cp_fenceproxy", "M S N"}, {"", nullptr}}},
    {"testp", {{"", "=P T"}}},
    {"tld4", {{"", "=Fe| X X? X?"}}},
    {"trap", {{"", ""}}},
    {"txq", {{"level", "=T X X"}, {"", "=T X"}}},
    {"vabsdiff2", kVideo},
    {"vabsdiff4", kVideo},
    {"vote", {{"ballot", "=B P I"}, {"", "=P P I"}}},
    {"wmma", {{"load", "=X M I?"}, {"store", "M X I?"}, {"", nullptr}}},
    {"stmatrix", {{"", "M X"}}},
    {"ldmatrix", {{"", "=X M"}}},
    {"xor", kTwo},
};

bool has_all(const Instruction& ins, const char* mods) {
  std::istringstream words(mods);
  for (std::string word; words >> word;)
    if (!ins.has(word)) return false;
  return true;
}

}  // namespace

const char* operand_row(const Instruction& ins) {
  auto it = kRows.find(ins.op);
  if (it == kRows.end()) return nullptr;
  for (auto& row : it->second)
    if (has_all(ins, row.mods)) return row.operands;
  return nullptr;
}

}  // namespace softgpu::ptx

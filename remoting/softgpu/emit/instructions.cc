#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;

namespace {

using Emit = void (*)(FunctionScope& scope, const Instruction& ins, Code& out);

void emit_nothing(FunctionScope&, const Instruction&, Code&) {}

// fence.proxy.tensormap::generic.release.scope, or .acquire.scope [map], 128
void check_map_fence(const FunctionScope& scope, const Instruction& ins) {
  constexpr uint64_t kMapBytes = 128;
  bool acquires = ins.has("acquire");
  bool has_scope = ins.has("cta") || ins.has("cluster") || ins.has("gpu") || ins.has("sys");
  if (acquires == ins.has("release") || !has_scope) scope.refuse();
  if (acquires && ins.operands.at(1).bits != kMapBytes) scope.reject("its size is 128");
}

// All proxies are one: copies are done at once.
void emit_fence(FunctionScope& scope, const Instruction& ins, Code& out) {
  static const std::set<std::string> kProxies = {"alias", "async", "tensormap::generic"};
  static const std::set<std::string> kSpaces = {"global", "shared::cta", "shared::cluster"};
  if (ins.take("proxy")) {
    if (!ins.take_one_of(kProxies)) scope.refuse();
    bool releases = ins.has("tensormap::generic") && ins.has("release");
    if (ins.has("async") || releases) (void)ins.take_one_of(kSpaces);
    if (ins.has("tensormap::generic")) check_map_fence(scope, ins);
  }
  out.add("__atomic_thread_fence(__ATOMIC_SEQ_CST)");
}

void emit_barrier_arrive(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (!ins.take("arrive")) scope.refuse();
  out.add("barrier_arrive(c, {})", scope.read(ins.operands.at(0), kU32));
}

void emit_active_mask(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool lockstep = scope.mode == FunctionScope::Mode::lockstep;
  scope.assign(out, ins.operands.at(0),
               lockstep ? Expr{"mask", kU32} : expr(kU32, "(1u << {})", scope.thread("lane")));
}

// A policy of the caches, which do not exist: 0.
void emit_create_policy(FunctionScope& scope, const Instruction& ins, Code& out) {
  scope.assign(out, ins.operands.at(0), expr(last_type(ins), "0"));
}

// The lanes of a warp sleep one after the other, so each takes its part of the time.
void emit_sleep(FunctionScope& scope, const Instruction& ins, Code& out) {
  std::string lanes =
      scope.mode == FunctionScope::Mode::lockstep ? "__builtin_popcount(mask)" : "1";
  out.add("sleep_nanoseconds({} / (u32){})", scope.read(ins.operands.at(0), kU32), lanes);
}

const std::map<std::string, Emit> kInstructions = {
    {"abs", emit_arithmetic},
    {"activemask", emit_active_mask},
    {"add", emit_arithmetic},
    {"addc", emit_arithmetic},
    {"and", emit_bit_field},
    {"applypriority", emit_nothing},
    {"atom", emit_atomic},
    {"bar", emit_barrier_arrive},
    {"barrier", emit_barrier_arrive},
    {"bfe", emit_bit_field},
    {"bfi", emit_bit_field},
    {"bfind", emit_bit_field},
    {"bmsk", emit_bit_field},
    {"brev", emit_bit_field},
    {"brkpt", emit_nothing},
    {"call", emit_call},
    {"clz", emit_bit_field},
    {"cnot", emit_bit_field},
    {"copysign", emit_arithmetic},
    {"cos", emit_arithmetic},
    {"cp", emit_copy_async},
    {"createpolicy", emit_create_policy},
    {"cvt", emit_convert},
    {"cvta", emit_convert_address},
    {"discard", emit_nothing},
    {"div", emit_arithmetic},
    {"dp2a", emit_dot_product},
    {"dp4a", emit_dot_product},
    {"ex2", emit_arithmetic},
    {"fence", emit_fence},
    {"fma", emit_arithmetic},
    {"fns", emit_bit_field},
    {"griddepcontrol", emit_nothing},
    {"isspacep", emit_test_address},
    {"ld", emit_memory_access},
    {"ldu", emit_memory_access},
    {"lg2", emit_arithmetic},
    {"lop3", emit_lop3},
    {"mad", emit_arithmetic},
    {"mad24", emit_arithmetic},
    {"madc", emit_arithmetic},
    {"max", emit_arithmetic},
    {"mbarrier", emit_mbarrier},
    {"membar", emit_fence},
    {"min", emit_arithmetic},
    {"mov", emit_move},
    {"mul", emit_arithmetic},
    {"mul24", emit_arithmetic},
    {"nanosleep", emit_sleep},
    {"neg", emit_arithmetic},
    {"not", emit_bit_field},
    {"or", emit_bit_field},
    {"pmevent", emit_nothing},
    {"popc", emit_bit_field},
    {"prefetch", emit_nothing},
    {"prefetchu", emit_nothing},
    {"prmt", emit_permute},
    {"rcp", emit_arithmetic},
    {"red", emit_atomic},
    {"rem", emit_arithmetic},
    {"rsqrt", emit_arithmetic},
    {"sad", emit_arithmetic},
    {"selp", emit_select},
    {"set", emit_compare},
    {"setmaxnreg", emit_nothing},
    {"setp", emit_compare},
    {"shf", emit_bit_field},
    {"shl", emit_bit_field},
    {"shr", emit_bit_field},
    {"sin", emit_arithmetic},
    {"slct", emit_select},
    {"sqrt", emit_arithmetic},
    {"st", emit_memory_access},
    {"sub", emit_arithmetic},
    {"subc", emit_arithmetic},
    {"suld", emit_surface},
    {"suq", emit_query},
    {"sured", emit_surface},
    {"sust", emit_surface},
    {"szext", emit_bit_field},
    {"tanh", emit_arithmetic},
    {"tensormap", emit_tensor_map},
    {"testp", emit_test_property},
    {"tex", emit_texture},
    {"tld4", emit_texture},
    {"txq", emit_query},
    {"vabsdiff2", emit_video_difference},
    {"vabsdiff4", emit_video_difference},
    {"xor", emit_bit_field},
};

}  // namespace

void emit_instruction(FunctionScope& scope, const Instruction& ins, Code& out) {
  scope.begin(ins);
  if (ins.has("cluster") && (ins.op == "barrier" || ins.op == "mapa"))
    scope.refuse("thread block clusters are not supported");
  auto it = kInstructions.find(ins.op);
  if (it == kInstructions.end()) scope.refuse();
  it->second(scope, ins, out);
  scope.end();
}

}  // namespace softgpu::emit

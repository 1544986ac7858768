// Special registers and addresses of variables, as C expressions.
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

namespace {

const std::map<std::string, std::string> kThreadRegisters = {
    {"%tid.x", "x"}, {"%tid.y", "y"}, {"%tid.z", "z"}, {"%laneid", "lane"}, {"%warpid", "warp"}};

const std::map<std::string, std::string> kSpecialRegisters = {
    {"%ntid.x", "k.ntid[0]"},
    {"%ntid.y", "k.ntid[1]"},
    {"%ntid.z", "k.ntid[2]"},
    {"%ctaid.x", "k.ctaid[0]"},
    {"%ctaid.y", "k.ctaid[1]"},
    {"%ctaid.z", "k.ctaid[2]"},
    {"%nctaid.x", "k.nctaid[0]"},
    {"%nctaid.y", "k.nctaid[1]"},
    {"%nctaid.z", "k.nctaid[2]"},
    {"%nwarpid", "((c->threads + 31) / 32)"},
    {"%smid", "c->worker"},
    {"%nsmid", "c->workers"},
    {"%gridid", "c->grid_id"},
    {"%clock", "(u32)cycles()"},
    {"%clock_hi", "(u32)(cycles() >> 32)"},
    {"%clock64", "cycles()"},
    {"%globaltimer", "nanoseconds()"},
    {"%globaltimer_lo", "(u32)nanoseconds()"},
    {"%globaltimer_hi", "(u32)(nanoseconds() >> 32)"},
    {"%dynamic_smem_size", "c->dynamic_shared_bytes"},
    {"%total_smem_size", "c->shared_bytes"},
    {"%envreg1", "(u32)(c->workspace >> 32)"},
    {"%envreg2", "(u32)c->workspace"},
    {"%cluster_ctarank", "0"},
    {"%cluster_nctarank", "1"},
    {"%cluster_ctaid.x", "0"},
    {"%cluster_ctaid.y", "0"},
    {"%cluster_ctaid.z", "0"},
    {"%cluster_nctaid.x", "1"},
    {"%cluster_nctaid.y", "1"},
    {"%cluster_nctaid.z", "1"},
    // A cluster is one thread block.
    {"%clusterid.x", "k.ctaid[0]"},
    {"%clusterid.y", "k.ctaid[1]"},
    {"%clusterid.z", "k.ctaid[2]"},
    {"%nclusterid.x", "k.nctaid[0]"},
    {"%nclusterid.y", "k.nctaid[1]"},
    {"%nclusterid.z", "k.nctaid[2]"},
    // The fourth dimension does not exist.
    {"%tid.w", "0"},
    {"%ntid.w", "0"},
    {"%ctaid.w", "0"},
    {"%nctaid.w", "0"},
    {"%clusterid.w", "0"},
    {"%nclusterid.w", "0"},
    {"%cluster_ctaid.w", "0"},
    {"%cluster_nctaid.w", "0"}};

}  // namespace

std::string FunctionScope::special(const std::string& name) const {
  if (auto it = kThreadRegisters.find(name); it != kThreadRegisters.end())
    return thread(it->second);
  std::string lane = thread("lane");
  if (name == "%lanemask_eq") return render("(1u << {})", lane);
  if (name == "%lanemask_lt") return render("((1u << {}) - 1)", lane);
  if (name == "%lanemask_le") return render("((2u << {}) - 1)", lane);
  if (name == "%lanemask_gt") return render("~((2u << {}) - 1)", lane);
  if (name == "%lanemask_ge") return render("~((1u << {}) - 1)", lane);
  auto it = kSpecialRegisters.find(name);
  if (it == kSpecialRegisters.end())
    reject("special register " + name + " is not supported by the software GPU");
  return render("({})", it->second);
}

std::string FunctionScope::thread(const std::string& member) const {
  if (mode == Mode::called) return "t->" + member;
  if (mode == Mode::serial) return member;
  if (member == "lane") return "l";
  return member == "warp" ? "w->index" : render("w->{}[l]", member);
}

// The value of a symbol: an offset for shared variables, an address in the window for local
// variables and parameters of kernels, an entry of Cta.globals for module variables, a number for
// functions.
std::string FunctionScope::symbol_address(const std::string& name) const {
  if (is_call_parameter(name)) reject("parameter " + name + " of a call has no address");
  if (auto it = kernel_param_offset_.find(name); it != kernel_param_offset_.end())
    return render("((u64)(c->params + {}))", it->second);
  if (auto it = local_offset_.find(name); it != local_offset_.end())
    return render("((u64)(lp + {}))", hex(it->second, 32));
  if (auto it = kernel.shared_offset.find(name); it != kernel.shared_offset.end())
    return hex(it->second, 32);
  if (auto it = kernel.global_index.find(name); it != kernel.global_index.end())
    return render("c->globals[{}]", it->second);
  for (size_t i = 0; i < kernel.module.functions.size(); ++i)
    if (kernel.module.functions[i].name == name) return hex(ptx::function_address(i), 64);
  reject("unknown symbol " + name);
}

}  // namespace softgpu::emit

// The frame of a kernel: layout, the warp machine of kernels with cross-lane operations, the thread
// loop of all others.
#include <algorithm>

#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Block;
using ptx::BlockKind;
using ptx::Instruction;
using ptx::Space;

static uint64_t align_up(uint64_t v, uint64_t a) {
  return (v + a - 1) / a * a;
}
static std::string num(size_t n) {
  return std::to_string(n);
}

void FunctionEmitter::layout() {
  int index = 0;
  for (auto& [name, type] : f_.registers) register_index_[name] = index++;
  register_index_["%cc"] = index++;
  if (f_.entry) {
    uint64_t at = 0;
    for (auto& p : f_.params) {
      at = align_up(at, p.align);
      kernel_param_offset_[p.name] = at;
      at += p.bytes;
    }
  }
  int params = 0;
  for (auto& v : f_.variables) {
    if (v.space == Space::local) {
      local_bytes_ = align_up(local_bytes_, std::max<uint64_t>(v.align, 16));
      local_offset_[v.name] = local_bytes_;
      local_bytes_ += v.bytes;
    } else if (v.space == Space::param)
      param_index_[v.name] = params++;
  }
  local_bytes_ = align_up(local_bytes_, 16);
  for (auto& v : f_.variables)
    if (v.space == Space::param && std::count_if(flow_.blocks.begin(), flow_.blocks.end(),
                                                 [&](auto& b) { return mentions(b, v.name); }) > 1)
      kept_params_.insert(v.name);
  if (f_.entry) return;
  int a = 0;
  for (auto* list : {&f_.returns, &f_.params})
    for (auto& p : *list) {
      if (p.space == Space::param) param_index_[p.name] = 1000000 + a;
      ++a;
    }
}

// Declarations: the frame's arrays, or plain variables; and the bytes of call parameters.
std::string FunctionEmitter::registers(bool only_frame, bool array) const {
  std::string s;
  auto declare = [&](const std::string& name, const std::string& type) {
    bool local = flow_.local_registers.count(name) > 0;
    if (array && local == only_frame) return;
    s += type + " r" + num((size_t)register_index_.at(name)) + (only_frame ? "[32];\n" : " = 0;\n");
  };
  for (auto& [name, type] : f_.registers) declare(name, storage(type));
  if (!array || only_frame) declare("%cc", "u32");
  for (auto& v : f_.variables)
    if (only_frame && kept_params_.count(v.name))
      s += "u8 p" + num((size_t)param_index_.at(v.name)) + "[32][" +
           num(align_up(std::max<size_t>(v.bytes, 8), 16)) + "] __attribute__((aligned(16)));\n";
  if (only_frame) return s;
  for (auto& v : f_.variables)
    if (v.space == Space::param)
      s += "u8 p" + num((size_t)param_index_.at(v.name)) + "[" + num(std::max<size_t>(v.bytes, 8)) +
           "] __attribute__((aligned(16)));\n";
  for (auto& [name, i] : param_index_)
    if (i >= 1000000)
      s += "u8* p" + num((size_t)i) + " = a" + num((size_t)i - 1000000) + "; (void)p" +
           num((size_t)i) + ";\n";
  return s;
}

void FunctionEmitter::statement(const Instruction& ins, std::string& out) {
  line_ = ins.line;
  if (ins.has("cluster")) refuse(ins, "thread block clusters are not supported");
  if (ins.op == "bar" || ins.op == "barrier") {
    out += "barrier_arrive(c, " + read(ins.operands.at(0), {'u', 32}) + ");\n";
    return;
  }
  if (ins.op == "activemask") {
    out += write(ins.operands.at(0), {'u', 32},
                 mode_ == Mode::lanes ? "mask" : "(1u << " + thread("lane") + ")");
    return;
  }
  if (ins.op == "brkpt") return;
  if (arithmetic(ins, out) || compare(ins, out) || convert(ins, out) || bits(ins, out) ||
      memory(ins, out) || mbarrier(ins, out) || texture(ins, out) || call(ins, out))
    return;
  refuse(ins);
}

std::string FunctionEmitter::checked(std::string (FunctionEmitter::*emit)()) {
  try {
    return (this->*emit)();
  } catch (const std::out_of_range&) {
    auto at =
        std::find_if(f_.body.begin(), f_.body.end(), [&](auto& ins) { return ins.line == line_; });
    throw ptx::Refusal{line_, "instruction " + (at == f_.body.end() ? std::string("?") : at->op) +
                                  " has too few operands or words"};
  }
}

static std::string guard(const std::string& predicate, bool negated) {
  return negated ? "!" + predicate : predicate;
}

std::string FunctionEmitter::blocks_scalar() {
  std::string s;
  for (size_t b = 0; b < flow_.blocks.size(); ++b) {
    s += "L" + num(b) + ":;\n";
    std::map<size_t, std::string> before;
    group_accesses(flow_.blocks[b], before);
    for (size_t i = flow_.blocks[b].first; i < flow_.blocks[b].last; ++i) {
      if (auto it = before.find(i); it != before.end()) s += it->second;
      const Instruction& ins = f_.body[i];
      line_ = ins.line;
      if (ptx::is_sync(ins) || ptx::is_barrier(ins)) refuse(ins, "it stands in a called function");
      std::string code;
      if (ins.op == "bra")
        code = "goto L" + num((size_t)flow_.label_block.at(ins.operands.back().name)) + ";\n";
      else if (ins.op == "ret" || ins.op == "exit")
        code = "goto done;\n";
      else if (ins.op == "trap")
        code = "c->host->fault(c, FAULT_TRAP, 0);\n";
      else if (ins.op == "brx")
        code = indexed_branch(ins, "goto L");
      else
        statement(ins, code);
      if (!ins.guard.empty())
        code = "if (" + guard(reg(ins.guard), ins.guard_negated) + ") {\n" + code + "}\n";
      s += code;
    }
  }
  return s + "L" + num(flow_.blocks.size()) + ":;\n";
}

std::string FunctionEmitter::indexed_branch(const Instruction& ins, const std::string& jump) const {
  auto it = f_.branch_targets.find(ins.operands.at(1).name);
  if (it == f_.branch_targets.end()) refuse(ins, "unknown list of targets");
  std::string s = "switch (" + read(ins.operands[0], {'u', 32}) + ") {\n";
  for (size_t i = 0; i < it->second.size(); ++i) {
    auto label = flow_.label_block.find(it->second[i]);
    if (label == flow_.label_block.end()) refuse(ins, "unknown label");
    s += "case " + num(i) + ": " + jump + num((size_t)label->second) +
         (jump[0] == 'g' ? ";\n" : "] |= 1u << l; break;\n");
  }
  return s + "default: c->host->fault(c, FAULT_TRAP, 0);\n}\n";
}

std::string FunctionEmitter::scalar_kernel() {
  std::string stream = stream_function();
  mode_ = Mode::scalar;
  std::string body = registers(false, false) + stack(false) + blocks_scalar();
  return stream + "#include \"thread_loop\"\n" + constants() +
         (stream.empty() ? "THREADS {\n" : "STREAMS {\n") + body +
         "done:;\n}\nreturn CTA_DONE;\n}\n";
}

// What no store of the kernel can change, as variables of its own: C would read them again after
// each store.
std::string FunctionEmitter::constants() const {
  uint64_t bytes = 0;
  for (auto& p : f_.params) bytes = align_up(bytes, p.align) + p.bytes;
  std::string n = num(std::max<uint64_t>(bytes, 1));
  return "const Constants k = constants(c); (void)k;\nu8 params[" + n +
         "] __attribute__((aligned(16))); __builtin_memcpy(params, c->params, " + n + ");\n";
}

// The running thread's stack, where the kernel has one; with calls, also what a callee wants to
// know of the thread.
std::string FunctionEmitter::stack(bool calls) const {
  bool any = calls || local_bytes_ || std::any_of(f_.body.begin(), f_.body.end(), [](auto& ins) {
               return ins.op == "call";
             });
  if (!any) return "";
  std::string at = mode_ == Mode::lanes ? "w->index * 32 + l" : "n";
  std::string s = "u8* lp = (u8*)(c->local_base + (u64)(" + at + ") * c->local_bytes); (void)lp;\n";
  if (!calls && mode_ == Mode::lanes) return s;
  return s + "Thread own = {" + thread("x") + ", " + thread("y") + ", " + thread("z") + ", " +
         thread("lane") + ", " + thread("warp") +
         ", 0, lp, lp + c->local_bytes}; Thread* t = &own; (void)t;\n";
}

// ---- lockstep ----
std::string FunctionEmitter::lane_body(size_t b) {
  const Block& block = flow_.blocks[b];
  std::string s =
      stack(std::any_of(f_.body.begin() + (long)block.first, f_.body.begin() + (long)block.last,
                        [](auto& ins) { return ins.op == "call"; }));
  std::set<std::string> used;
  for (size_t i = block.first; i < block.last; ++i)
    for (auto& r : ptx::registers_of(f_, f_.body[i]))
      if (flow_.local_registers.count(r)) used.insert(r);
  for (auto& r : used) s += storage(f_.registers.at(r)) + " " + reg(r) + " = 0;\n";
  for (auto& v : f_.variables)
    if (v.space == Space::param && !kept_params_.count(v.name) && mentions(block, v.name))
      s += "u8 p" + num((size_t)param_index_.at(v.name)) + "[" + num(std::max<size_t>(v.bytes, 8)) +
           "] __attribute__((aligned(16)));\n";
  std::map<size_t, std::string> before;
  group_accesses(block, before);
  for (size_t i = block.first; i < block.last; ++i) {
    if (auto it = before.find(i); it != before.end()) s += it->second;
    const Instruction& ins = f_.body[i];
    line_ = ins.line;
    std::string code, condition = ins.guard.empty() ? "" : guard(reg(ins.guard), ins.guard_negated);
    if (ins.op == "bra" || ins.op == "ret" || ins.op == "exit") {
      if (!condition.empty()) s += "taken |= (u32)((" + condition + ") != 0) << l;\n";
      continue;
    }
    if (ins.op == "trap")
      code = "c->host->fault(c, FAULT_TRAP, 0);\n";
    else if (ins.op == "brx")
      code = indexed_branch(ins, "w->at[");
    else if (block.kind == BlockKind::barrier)
      code = barrier_entry(ins, b);
    else
      statement(ins, code);
    s += condition.empty() ? code : "if (" + condition + ") {\n" + code + "}\n";
  }
  return s;
}

bool FunctionEmitter::mentions(const Block& block, const std::string& name) const {
  auto in = [&](const ptx::Checked<ptx::Operand>& list) {
    return std::any_of(list.begin(), list.end(), [&](auto& o) {
      return o.name == name || (!o.elements.empty() && o.elements[0].name == name);
    });
  };
  for (size_t i = block.first; i < block.last; ++i)
    if (in(f_.body[i].operands) || in(f_.body[i].call_returns) || in(f_.body[i].call_arguments))
      return true;
  return false;
}

// bar.sync id{, threads}; bar.red.op d, id{, threads}, p; number 16 is the barrier of the grid
std::string FunctionEmitter::barrier_entry(const Instruction& ins, size_t b) const {
  if (ptx::is_grid_barrier(ins)) {
    std::string s =
        "w->bar_id[l] = 16; w->bar_count[l] = w->bar_vote[l] = 0; w->bar_next[l] = " + num(b + 1) +
        "; taken |= 1u << l;\n";
    for (auto& r : ins.call_returns)
      if (param_index_.count(r.name)) s += "__builtin_memset(" + parameter(r.name) + ", 0, 4);\n";
    return s;
  }
  bool reduction = ins.has("red");
  size_t first = reduction ? 1 : 0, n = ins.operands.size();
  std::string id = n > first ? read(ins.operands[first], {'u', 32}) : "0", count = "0", value = "0";
  if (!reduction && n > 1) count = read(ins.operands[1], {'u', 32});
  if (reduction && n > 3) count = read(ins.operands[2], {'u', 32});
  if (reduction) value = read(ins.operands.back(), {'p', 8});
  std::string next = num(reduction ? b + flow_.blocks.size() : b + 1);
  return "w->bar_id[l] = " + id + " & 15; w->bar_count[l] = " + count +
         "; w->bar_vote[l] = " + value + "; w->bar_next[l] = " + next + "; taken |= 1u << l;\n";
}

// bar.sync with a constant id and no count, reached by all living lanes at once: one note for the
// warp instead of one a lane.
std::string FunctionEmitter::whole_barrier(size_t b) const {
  const Block& block = flow_.blocks[b];
  if (block.kind != BlockKind::barrier || block.last != block.first + 1) return "";
  const Instruction& ins = f_.body[block.first];
  if (!ins.guard.empty() || ins.has("red") || ptx::is_grid_barrier(ins) || ins.operands.size() > 1)
    return "";
  if (ins.operands.size() == 1 &&
      (ins.operands[0].kind != ptx::OperandKind::integer || ins.operands[0].bits > 15))
    return "";
  uint64_t id = ins.operands.empty() ? 0 : ins.operands[0].bits;
  return "if (mask == w->alive && !w->bar_mask) { w->bar_mask = mask; w->bar_whole = " +
         num(id + 1) + "; w->bar_place = " + num(b + 1) + "; goto pick; }\n";
}

std::string FunctionEmitter::terminator_lockstep(size_t b) {
  const Block& block = flow_.blocks[b];
  const Instruction* end = block.last > block.first ? &f_.body[block.last - 1] : nullptr;
  std::string next = "NEXT(" + num(b) + ", " + num(b + 1) + ");\n";
  if (block.kind == BlockKind::barrier)
    return "w->bar_mask |= taken; mask &= ~taken; if (!mask) goto pick; " + next;
  if (!end || !ptx::ends_block(*end)) return next;
  bool guarded = !end->guard.empty();
  if (end->op == "brx")
    return guarded ? "for (u32 q = 0; q < 0; ++q) {}\n" + std::string("goto pick;\n")
                   : "goto pick;\n";
  if (end->op == "trap") return next;
  if (end->op == "bra") {
    std::string target = num((size_t)flow_.label_block.at(end->operands.back().name));
    return guarded ? "BRANCH(" + num(b) + ", " + target + ", " + num(b + 1) + ");\n"
                   : "NEXT(" + num(b) + ", " + target + ");\n";
  }
  if (!guarded) return "w->alive &= ~mask; goto pick;\n";
  return "w->alive &= ~taken; mask &= ~taken; if (!mask) goto pick; " + next;
}

std::string FunctionEmitter::block_lockstep(size_t b) {
  const Block& block = flow_.blocks[b];
  std::string s = "L" + num(b) + ":;\n{ u32 taken = 0; (void)taken;\n";
  if (block.kind == BlockKind::sync)
    return s + sync_body(b) + "NEXT(" + num(b) + ", " + num(b + 1) + ");\n}\n";
  if (std::string whole = whole_barrier(b); !whole.empty()) s += whole;
  std::string body = lane_body(b);
  s += "if (mask == ~0u) { for (u32 l = 0; l < 32; ++l) {\n" + body +
       "} }\nelse for (u32 l = 0; l < 32; ++l) if (mask >> l & 1) {\n" + body + "}\n";
  return s + terminator_lockstep(b) + "}\n";
}

std::string FunctionEmitter::sync_body(size_t b) {
  const Instruction& ins = f_.body[flow_.blocks[b].first];
  line_ = ins.line;
  std::string s = "u32 todo = mask;\n";
  if (!ins.guard.empty()) {
    s += "{ u32 on = 0; for (u32 l = 0; l < 32; ++l) if (mask >> l & 1) on |= (u32)((" +
         guard(reg(ins.guard), ins.guard_negated) + ") != 0) << l; todo &= on; }\n";
  }
  s += "while (todo) { u32 l0 = (u32)__builtin_ctz(todo); u32 g = members(w, " + num(b) +
       ", l0) & todo; if (!g) g = 1u << l0; todo &= ~g;\n";
  exchange(ins, s);
  return s + "}\n";
}

std::string FunctionEmitter::members_function() {
  std::string s = "static u32 members(Warp* w, int b, u32 l) {\nswitch (b) {\n";
  for (size_t b = 0; b < flow_.blocks.size(); ++b)
    if (flow_.blocks[b].kind == BlockKind::sync) {
      line_ = f_.body[flow_.blocks[b].first].line;
      s += "case " + num(b) + ": return " + members(f_.body[flow_.blocks[b].first]) + ";\n";
    }
  return s + "}\nreturn ~0u;\n}\n";
}

std::string FunctionEmitter::lockstep_kernel() {
  mode_ = Mode::lanes;
  size_t n = flow_.blocks.size();
  std::string s =
      "enum { BLOCKS = " + num(n) + ", PLACES = " + num(2 * n + 1) +
      " };\ntypedef struct Warp {\nu32 alive, bar_mask, turn, bar_whole, bar_place, at[PLACES], bar_id[32], bar_count[32], bar_vote[32], bar_next[32], bar_sum[32], bar_total[32], index, x[32], y[32], z[32];\n";
  s += registers(true, true) + "} Warp;\nstatic const u8 is_sync[PLACES] = {";
  for (auto& b : flow_.blocks) s += b.kind == BlockKind::sync ? "1," : "0,";
  s +=
      "};\n" + members_function() +
      "#include \"warp_machine\"\nstatic void run_warp(Cta* c, Warp* w) {\n" + constants() +
      "u32 mask, jumps = 0; int place;\npick: place = pick(w, &mask);\nswitch (place) {\ncase -1: return;\n";
  for (size_t b = 0; b < n; ++b) s += "case " + num(b) + ": goto L" + num(b) + ";\n";
  for (size_t b = 0; b < n; ++b)
    if (reduces(b)) s += "case " + num(b + n) + ": goto L" + num(b + n) + ";\n";
  s += "}\nw->alive &= ~mask; goto pick;\n";
  for (size_t b = 0; b < n; ++b) s += block_lockstep(b);
  for (size_t b = 0; b < n; ++b)
    if (reduces(b)) s += reduction_result(b);
  return s + "L" + num(n) + ":; w->alive &= ~mask; goto pick;\n}\n#include \"warp_loop\"\n";
}

bool FunctionEmitter::reduces(size_t b) const {
  return flow_.blocks[b].kind == BlockKind::barrier && f_.body[flow_.blocks[b].first].has("red");
}

std::string FunctionEmitter::reduction_result(size_t b) const {
  const Instruction& ins = f_.body[flow_.blocks[b].first];
  line_ = ins.line;
  std::string w = ins.has("popc") ? write(ins.operands[0], {'u', 32}, "w->bar_sum[l]")
                                  : write(ins.operands[0], {'p', 8},
                                          ins.has("and") ? "w->bar_sum[l] == w->bar_total[l]"
                                                         : "w->bar_sum[l] != 0");
  return "L" + num(b + flow_.blocks.size()) +
         ":;\n{ for (u32 l = 0; l < 32; ++l) if (mask >> l & 1) { " + w + "}\nNEXT(" + num(b) +
         ", " + num(b + 1) + ");\n}\n";
}

}  // namespace softgpu::emit

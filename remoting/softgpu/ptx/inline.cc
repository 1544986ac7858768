#include "softgpu/ptx/inline.h"

#include <algorithm>

#include "softgpu/ptx/control_flow.h"

namespace softgpu::ptx {

namespace {

constexpr size_t kMaxInstructions = 1 << 20;
constexpr int kMaxCalls = 1024;

const Function* callee_of(const Module& m, const Instruction& ins) {
  return ins.op == "call" && !ins.operands.empty() ? m.find(ins.operands[0].name) : nullptr;
}

bool waits_for_lanes(const Module& m, const Function& f, std::set<const Function*>& seen) {
  if (!seen.insert(&f).second) return false;
  if (needs_lockstep(f)) return true;
  return std::any_of(f.body.begin(), f.body.end(), [&](auto& ins) {
    if (is_sync(ins) || is_barrier(ins)) return true;
    const Function* callee = callee_of(m, ins);
    return callee && waits_for_lanes(m, *callee, seen);
  });
}

// Replaces one call. Every name of the callee gets a suffix.
class Copy {
 public:
  Copy(Function& to, const Function& callee, const Instruction& call, int number)
      : to_(to), callee_(callee), call_(call), suffix_("@i" + std::to_string(number)) {}

  void run() {
    for (auto& [name, type] : callee_.registers) to_.registers[name + suffix_] = type;
    for (auto& v : callee_.variables) {
      to_.variables.push_back(v);
      to_.variables.back().name += suffix_;
    }
    for (auto& [name, targets] : callee_.branch_targets)
      for (auto& t : targets) to_.branch_targets[name + suffix_].push_back(t + suffix_);
    bind(callee_.params, call_.call_arguments, true);
    bind(callee_.returns, call_.call_returns, false);
    size_t begin = to_.body.size();
    for (auto& [name, at] : callee_.labels) to_.labels[name + suffix_] = begin + at;
    for (auto& ins : callee_.body) to_.body.push_back(renamed(ins));
    to_.labels["return" + suffix_] = to_.body.size();
    for (auto& ins : after_) to_.body.push_back(ins);
  }

 private:
  // A parameter that is a variable of the caller becomes an alias of it; a register or number is
  // copied to or from a variable or register of the callee.
  void bind(const std::vector<Variable>& names, const Checked<Operand>& given, bool in) {
    if (names.size() > given.size())
      throw Refusal{call_.line, "instruction call: too few arguments"};
    for (size_t i = 0; i < names.size(); ++i) {
      const Variable& p = names[i];
      if (p.space == Space::reg) {
        move(p, given[i], in);
        continue;
      }
      bool variable = std::any_of(to_.variables.begin(), to_.variables.end(),
                                  [&](auto& v) { return v.name == given[i].name; });
      if (variable) {
        alias_[p.name] = given[i].name;
        continue;
      }
      Variable fresh = p;
      fresh.name += suffix_;
      to_.variables.push_back(fresh);
      Operand place{OperandKind::address,
                    "",
                    0,
                    0,
                    false,
                    {Operand{OperandKind::reg, fresh.name, 0, 0, false, {}}}};
      Checked<std::string> mods = {"param", "b" + std::to_string(p.type.bits)};
      if (in)
        to_.body.push_back({"st", mods, {place, given[i]}, "", false, {}, {}, call_.line});
      else
        after_.push_back({"ld", mods, {given[i], place}, "", false, {}, {}, call_.line});
    }
  }

  void move(const Variable& p, const Operand& given, bool in) {
    Operand own{OperandKind::reg, p.name + suffix_, 0, 0, false, {}};
    to_.registers[own.name] = p.type;
    Checked<std::string> mods = {p.type.kind == 'p' ? "pred" : "b" + std::to_string(p.type.bits)};
    if (in)
      to_.body.push_back({"mov", mods, {own, given}, "", false, {}, {}, call_.line});
    else
      after_.push_back({"mov", mods, {given, own}, "", false, {}, {}, call_.line});
  }

  std::string name(const std::string& n) const {
    if (auto it = alias_.find(n); it != alias_.end()) return it->second;
    bool own =
        callee_.registers.count(n) || callee_.labels.count(n) || callee_.branch_targets.count(n);
    auto in = [&](auto& list) {
      return std::any_of(list.begin(), list.end(), [&](auto& v) { return v.name == n; });
    };
    return own || in(callee_.variables) || in(callee_.params) || in(callee_.returns) ? n + suffix_
                                                                                     : n;
  }

  void rename(Checked<Operand>& operands) const {
    for (auto& o : operands) {
      if (!o.name.empty()) o.name = name(o.name);
      rename(o.elements);
    }
  }

  Instruction renamed(Instruction ins) const {
    if (ins.op == "ret") {
      ins.op = "bra";
      ins.mods.clear();
      ins.operands = {Operand{OperandKind::reg, "return" + suffix_, 0, 0, false, {}}};
    } else {
      rename(ins.operands);
      rename(ins.call_returns);
      rename(ins.call_arguments);
    }
    if (!ins.guard.empty()) ins.guard = name(ins.guard);
    return ins;
  }

  Function& to_;
  const Function& callee_;
  const Instruction& call_;
  std::string suffix_;
  std::map<std::string, std::string> alias_;
  std::vector<Instruction> after_;
};

// Replaces the calls of one kernel.
class Inliner {
 public:
  explicit Inliner(const Module& m) : m_(m) {}

  // Return the function whose call must be replaced, or null.
  const Function* replaced(const Instruction& ins) {
    const Function* callee = ins.guard.empty() ? callee_of(m_, ins) : nullptr;
    if (!callee) return nullptr;
    auto [it, fresh] = synchronises_.try_emplace(callee, false);
    if (fresh) it->second = synchronises(m_, *callee);
    return it->second ? callee : nullptr;
  }

  // Refuse recursion before anything is copied: the kernel would grow without bound.
  void refuse_recursion(const Function& f) {
    if (done_.count(&f)) return;
    in_progress_.insert(&f);
    for (auto& ins : f.body) {
      const Function* callee = replaced(ins);
      if (!callee) continue;
      if (in_progress_.count(callee))
        throw Refusal{ins.line, "instruction call: recursive function " + callee->name +
                                    " has a barrier, which the software GPU does not support"};
      refuse_recursion(*callee);
    }
    in_progress_.erase(&f);
    done_.insert(&f);
  }

  // Replace the calls of a body once. Return false if there was none.
  bool replace_calls(Function& f) {
    if (std::none_of(f.body.begin(), f.body.end(), [&](auto& ins) { return replaced(ins); }))
      return false;
    std::vector<Instruction> body(std::make_move_iterator(f.body.begin()),
                                  std::make_move_iterator(f.body.end()));
    std::map<std::string, size_t> labels = std::move(f.labels);
    std::vector<size_t> place(body.size() + 1);
    f.body.clear();
    f.labels.clear();
    for (size_t i = 0; i < body.size(); ++i) {
      place[i] = f.body.size();
      const Function* callee = replaced(body[i]);
      if (!callee) {
        f.body.push_back(std::move(body[i]));
        continue;
      }
      if (++number_ > kMaxCalls)
        throw Refusal{
            body[i].line,
            "instruction call: more than 1024 calls of functions with barriers in one kernel"};
      Copy(f, *callee, body[i], number_).run();
      if (f.body.size() > kMaxInstructions)
        throw Refusal{
            body[i].line,
            "instruction call: the kernel is larger than 1048576 instructions with its functions "
            "that have barriers"};
    }
    place[body.size()] = f.body.size();
    for (auto& [name, at] : labels) f.labels[name] = place[at];
    return true;
  }

 private:
  const Module& m_;
  std::map<const Function*, bool> synchronises_;
  std::set<const Function*> in_progress_, done_;
  int number_ = 0;
};

}  // namespace

bool synchronises(const Module& m, const Function& f) {
  std::set<const Function*> seen;
  return waits_for_lanes(m, f, seen);
}

Function inline_synchronising(const Module& m, const Function& f) {
  Inliner inliner(m);
  inliner.refuse_recursion(f);
  Function out = f;
  while (inliner.replace_calls(out)) {
  }
  return out;
}

}  // namespace softgpu::ptx

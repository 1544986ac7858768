#include "softgpu/ptx/operand_check.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

#include "softgpu/ptx/modifier_check.h"
#include "softgpu/ptx/operand_rows.h"
#include "softgpu/ptx/operand_type.h"

namespace softgpu::ptx {
namespace {

// The names that the operands of one function may have.
struct Names {
  const Module& module;
  const Function& function;

  const Type* reg(const std::string& name) const {
    auto it = function.registers.find(name);
    return it == function.registers.end() ? nullptr : &it->second;
  }
  const Variable* variable(const std::string& name) const {
    for (auto* list : {&function.params, &function.returns, &function.variables})
      for (auto& v : *list)
        if (v.name == name) return &v;
    return module.variable(name);
  }
};

// One word of a row.
struct Slot {
  bool destination = false;
  char type = 0;
  std::string flags;
  explicit Slot(const std::string& word) {
    size_t at = word[0] == '=' ? 1 : 0;
    destination = at == 1;
    type = word[at];
    flags = word.substr(at + 1);
  }
  bool has(char flag) const { return flags.find(flag) != flags.npos; }
};

class OperandCheck {
 public:
  OperandCheck(const Names& names, const Instruction& ins) : names_(names), ins_(ins) {}
  void run();

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    std::string spelling = ins_.op;
    for (auto& m : ins_.mods) spelling += "." + m;
    throw Refusal{ins_.line, "instruction " + spelling + ": " + why};
  }
  [[noreturn]] void refuse_operand(const std::string& why) const {
    refuse("operand " + std::to_string(number_) + " " + why);
  }
  void check_guard() const;
  void check_call() const;
  void check_result() const;
  OperandType type_of(const Slot& slot) const;
  void check(const Slot& slot, const Operand& o);
  void check_value(const Slot& slot, const Operand& o, const OperandType& type) const;
  void check_register(const Slot& slot, const Operand& o, const OperandType& type) const;
  void check_elements(const Slot& slot, const Operand& o, const OperandType& type) const;
  void check_constant(const Slot& slot, const Operand& o, const OperandType& type) const;
  void check_special(const Slot& slot, const Operand& o, const OperandType& type) const;
  void check_sum(const Type& own, const Operand& o) const;
  bool is_integer(const Operand& o) const;
  bool is_bare_address(const Operand& o) const;
  void check_address(const Operand& o, Space space) const;
  void check_symbol(const Slot& slot, const Operand& o, const OperandType& type) const;

  const Names& names_;
  const Instruction& ins_;
  size_t number_ = 0;     // of the operand that is being checked, from 1
  size_t addresses_ = 0;  // checked so far
};

OperandType OperandCheck::type_of(const Slot& slot) const {
  switch (slot.type) {
    case 'I': return OperandType("u32");
    case 'B': return OperandType("b32");
    case 'L': return OperandType("u64");
    case 'P': return OperandType("pred");
    case 'f': return OperandType("f32");
    default: break;
  }
  const std::string* word = nullptr;
  for (auto& m : ins_.mods)
    if (OperandType::is_type(m)) {
      word = &m;
      if (slot.type == 'F') break;
    }
  if (!word) refuse("it has no type");
  OperandType type(*word);
  // NOLINTNEXTLINE(custom-unchecked-product): bits of a type
  if (slot.type == 'W') type.bits *= 2;
  return type;
}

void OperandCheck::check_guard() const {
  if (ins_.guard.empty()) return;
  const Type* type = names_.reg(ins_.guard);
  if (!type || type->kind != 'p') refuse("its guard is not a predicate");
}

void OperandCheck::check_call() const {
  const Function& f = names_.function;
  if (!ins_.call_list.empty() && !f.call_lists.count(ins_.call_list))
    refuse(ins_.call_list + " is no prototype or list of targets");
  if (names_.reg(ins_.operands[0].name) && ins_.call_list.empty())
    refuse("it calls a register without a prototype");
  const Function* callee = names_.module.function(ins_.operands[0].name);
  if (callee && callee->entry) refuse("it calls a kernel");
}

// A parameter of a call is read behind a call that returns it.
void OperandCheck::check_result() const {
  const Function& f = names_.function;
  if (ins_.op != "ld" || ins_.operands.size() < 2 || ins_.operands[1].elements.size() != 1) return;
  const std::string& name = ins_.operands[1].elements[0].name;
  auto is_named = [&](auto& v) {
    return v.name == name && v.space == Space::param;
  };
  if (std::none_of(f.variables.begin(), f.variables.end(), is_named)) return;
  for (auto& ins : f.body)
    for (auto& o : ins.call_returns)
      if (o.name == name) return;
  refuse(name + " is the result of no call");
}

void OperandCheck::run() {
  check_guard();
  if (ins_.op == "call") return check_call();
  check_result();
  const char* row = operand_row(ins_);
  if (!row) return;
  std::vector<Slot> slots;
  std::istringstream words(row);
  for (std::string word; words >> word;) slots.emplace_back(word);
  if (ins_.has("L2::cache_hint")) slots.emplace_back("L");
  size_t missing = slots.size() > ins_.operands.size() ? slots.size() - ins_.operands.size() : 0;
  for (auto& slot : slots) {
    if (missing && slot.has('?')) {
      --missing;
      continue;
    }
    if (number_ >= ins_.operands.size()) refuse("too few operands");
    const Operand& o = ins_.operands[number_++];
    check(slot, o);
  }
  if (number_ < ins_.operands.size()) refuse("too many operands");
}

void OperandCheck::check(const Slot& slot, const Operand& o) {
  if (slot.type == 'M' || slot.type == 'S') {
    Space named = space_of(ins_, addresses_++);
    if (slot.type == 'S' && ins_.has("tensor") && is_bare_address(o)) return;
    return check_address(o, slot.type == 'S' ? Space::shared : named);
  }
  if (slot.type == 'X') return;
  if (slot.type == 'N') {
    if (o.kind != OperandKind::integer) refuse_operand("is no integer constant");
    return;
  }
  if (slot.type == 'J') {
    const Type* type = names_.reg(o.name);
    return check_value(slot, o, OperandType(type && type->kind == 'p' ? "pred" : "u32"));
  }
  if (o.kind == OperandKind::pair) {
    if (!slot.has('|')) refuse_operand("may not be a pair");
    Slot second("=P_");
    std::string first = std::string(1, slot.type) + (slot.has('e') ? "e_" : "_");
    check(Slot(slot.destination ? "=" + first : "P"), o.elements[0]);
    return check_value(second, o.elements[1], OperandType("pred"));
  }
  if (slot.type == 'A') {
    const Type* type = names_.reg(o.name);
    bool wide = type && type->bits == 64;
    return check_value(slot, o, OperandType(wide ? "u64" : "u32"));
  }
  OperandType type = type_of(slot);
  if (slot.has('e')) {
    size_t n = ins_.has("v8") ? 8 : ins_.has("v4") ? 4 : ins_.has("v2") ? 2 : 1;
    if (o.kind == OperandKind::vector) {
      if (o.elements.size() != n) refuse_operand("has a wrong number of elements");
      for (auto& element : o.elements)
        check_value(Slot(slot.destination ? "=T_r" : "Tr"), element, type);
      return;
    }
    if (n > 1 && !(ins_.op == "sust" && is_integer(o))) refuse_operand("is no vector");
  }
  check_value(slot, o, type);
}

void OperandCheck::check_value(const Slot& slot, const Operand& o, const OperandType& type) const {
  switch (o.kind) {
    case OperandKind::sink:
      if (!slot.destination || !slot.has('_')) refuse_operand("may not be '_'");
      return;
    case OperandKind::vector:
      if (!slot.has('v')) refuse_operand("may not be a vector");
      return check_elements(slot, o, type);
    case OperandKind::special: return check_special(slot, o, type);
    case OperandKind::integer:
    case OperandKind::real32:
    case OperandKind::real64: return check_constant(slot, o, type);
    case OperandKind::symbol:
      if (slot.destination || slot.has('c') || !type.takes_integer() || type.kind == 'p')
        refuse_operand("may not be an address");
      if (const Type* own = names_.reg(o.name); own && ins_.op == "mov") return check_sum(*own, o);
      if (names_.reg(o.name) || !names_.variable(o.name))
        refuse_operand("adds a number to " + o.name + ", which is no variable");
      return check_symbol(slot, o, type);
    case OperandKind::reg: return check_register(slot, o, type);
    default: refuse_operand("may not be in brackets");
  }
}

void OperandCheck::check_constant(const Slot& slot, const Operand& o,
                                  const OperandType& type) const {
  bool takes = o.kind == OperandKind::integer ? type.takes_integer()
                                              : type.takes_real(o.kind == OperandKind::real64);
  if (slot.destination || slot.has('c') || !takes) refuse_operand("may not be a constant");
}

// `mov.u64 %rd1, %rd2+8`
void OperandCheck::check_sum(const Type& own, const Operand& o) const {
  if (own.is_float() || own.kind == 'p' || !o.elements.empty() || o.indexed || o.index)
    refuse_operand("adds a number to " + o.name + ", which is no integer");
}

// Special registers have 32 bits, apart from some that have 64.
void OperandCheck::check_special(const Slot& slot, const Operand& o,
                                 const OperandType& type) const {
  static const std::set<std::string> kWide = {"%clock64", "%globaltimer", "%current_graph_exec"};
  bool wide = kWide.count(o.name) > 0 || o.name.ends_with("_64");
  if (!slot.has('s') || type.kind == 'p' || type.is_float())
    refuse_operand("may not be a special register, and " + o.name + " is not declared");
  if (ins_.op == "mov" && type.bits >= 32 && wide != (type.bits == 64))
    refuse_operand(o.name + " has a wrong type");
}

void OperandCheck::check_register(const Slot& slot, const Operand& o,
                                  const OperandType& type) const {
  const Type* own = names_.reg(o.name);
  if (!own) {
    if (!slot.has('y')) refuse_operand(o.name + " is not a register");
    return check_symbol(slot, o, type);
  }
  if (o.negated && (slot.destination || type.kind != 'p')) refuse_operand("may not be negated");
  if (!(slot.has('r') ? type.fits_in(*own) : type.matches(*own)))
    refuse_operand(o.name + " has a wrong type");
}

// The registers of `mov.b64 {%r1, %r2}, %l3`.
void OperandCheck::check_elements(const Slot& slot, const Operand& o,
                                  const OperandType& type) const {
  int elements = (int)o.elements.size();
  if (type.kind != 'b' || elements == 0 || type.bits % elements)
    refuse_operand("is a vector of wrong size");
  OperandType part("b32");
  part.bits = type.bits / elements;
  for (auto& element : o.elements) check_value(Slot(slot.destination ? "=T_" : "T"), element, part);
}

void OperandCheck::check_symbol(const Slot& slot, const Operand& o, const OperandType& type) const {
  if (const Variable* v = names_.variable(o.name)) {
    bool sum = o.kind == OperandKind::symbol && o.offset && !o.index && o.elements.empty();
    bool wide = slot.has('y') && v->space == Space::global && !sum;
    if (ins_.op == "cvta" && space_of(ins_) != v->space)
      refuse_operand(o.name + " is in another state space");
    if (!type.takes_integer() || type.kind == 'p' || (wide && type.bits == 32))
      refuse_operand(o.name + " does not fit in the type");
  } else if (!names_.module.function(o.name)) {
    refuse_operand(o.name + " is not declared");
  } else if (ins_.op == "cvta") {
    refuse_operand(o.name + " is in no state space");
  }
}

// sust stores an integer as the first element.
bool OperandCheck::is_integer(const Operand& o) const {
  const Type* type = names_.reg(o.name);
  return o.kind == OperandKind::integer || (type && (type->kind == 'u' || type->kind == 's'));
}

// An address in shared memory of a copy of tensors may have no brackets.
bool OperandCheck::is_bare_address(const Operand& o) const {
  const Type* type = names_.reg(o.name);
  if (o.kind == OperandKind::reg && type)
    return !o.negated && !type->is_float() && type->kind != 'p';
  const Variable* v = names_.variable(o.name);
  return (o.kind == OperandKind::reg || o.kind == OperandKind::symbol) && !type && v &&
         v->space == Space::shared;
}

void OperandCheck::check_address(const Operand& o, Space space) const {
  if (o.kind != OperandKind::address || o.elements.size() > 1)
    refuse_operand("is no address in brackets");
  if (o.elements.empty()) {
    if (space != Space::local) refuse_operand("is a number, which only .local allows");
    return;
  }
  const std::string& name = o.elements[0].name;
  if (const Type* type = names_.reg(name)) {
    // These extend 32 bits with zeros.
    bool extends = number_ == 1 && (ins_.op == "tensormap" || ins_.has("bulk"));
    bool narrow = type->bits == 32 && (ins_.op == "fence" || extends ||
                                       (space != Space::none && space != Space::global));
    if (!std::strchr("bus", type->kind) || (type->bits != 64 && !narrow))
      refuse_operand(name + " has a wrong type for an address");
    return;
  }
  const Variable* v = names_.variable(name);
  if (!v) refuse_operand(name + " is not declared");
  if (space != Space::none && v->space != space)
    refuse_operand(name + " is in another state space");
}

}  // namespace

void check_operands(const Module& module, const Function& f) {
#ifdef SOFTGPU_PLANTED_OPERANDS  // a test removes the check: the generated forms must find that
  return;
#endif
  const Names names{module, f};
  for (auto& ins : f.body) {
    check_modifiers(ins);
    OperandCheck(names, ins).run();
  }
}

}  // namespace softgpu::ptx

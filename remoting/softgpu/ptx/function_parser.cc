#include "softgpu/ptx/function_parser.h"

#include <algorithm>
#include <set>

#include "checked_size.h"
#include "softgpu/ptx/directive_parser.h"
#include "softgpu/ptx/variable_parser.h"

namespace softgpu::ptx {

namespace {
constexpr uint64_t kMaxRegisters = 65536;  // of one declaration
constexpr int kMaxDepth = 64;              // of nested blocks
constexpr int kMaxVectorBits = 128;
}  // namespace

Function FunctionParser::parse() {
  f_.entry = cursor_.take().text == "entry";
  if (!f_.entry && cursor_.is("(")) f_.returns = parse_parameters(cursor_);
  f_.name = cursor_.word();
  if (f_.name == "_") cursor_.refuse("'_' is no name of a function");
  if (cursor_.is("(")) f_.params = parse_parameters(cursor_);
  attributes();
  check_parameters();
  for (auto* list : {&f_.params, &f_.returns})
    for (auto& p : *list) {
      declare(p.name);
      if (p.space == Space::reg) f_.registers[p.name] = p.type;
    }
  if (cursor_.accept(";")) return std::move(f_);
  cursor_.expect("{");
  f_.defined = true;
  block(1);
  check_branches();
  return std::move(f_);
}

// Parameters are in .param or .reg, those of kernels in .param.
void FunctionParser::check_parameters() const {
  for (auto* list : {&f_.params, &f_.returns})
    for (auto& p : *list)
      if (f_.entry && p.vector)
        cursor_.refuse("parameter " + p.name + " of a kernel is a vector");
      else if (p.space != Space::param && (f_.entry || p.space != Space::reg))
        cursor_.refuse("parameter " + p.name + " is in a wrong state space");
  for (auto& p : f_.params)
    if (p.is_open() && (f_.entry || &p != &f_.params.back()))
      cursor_.refuse("parameter " + p.name + " has no size");
  for (auto& p : f_.returns)
    if (p.is_open()) cursor_.refuse("result " + p.name + " has no size");
  auto in_memory = [](auto& p) {
    return p.space == Space::param;
  };
  if (f_.returns.size() > 1 && std::any_of(f_.returns.begin(), f_.returns.end(), in_memory))
    cursor_.refuse("function " + f_.name + " returns several values in .param");
}

// The directives of kernels and of other functions, with the most numbers that follow.
using Directives = std::map<std::string, int>;
const Directives kOfKernels = {
    {"maxntid", 3}, {"reqntid", 3},        {"reqnctapercluster", 3}, {"minnctapersm", 1},
    {"maxnreg", 1}, {"maxclusterrank", 1}, {"explicitcluster", 0},   {"blocksareclusters", 0}};
const Directives kOfFunctions = {
    {"noreturn", 0}, {"abi_preserve", 1}, {"abi_preserve_control", 1}, {"maxnreg", 1}};

// Performance directives: their numbers are used for the size of a thread block only.
void FunctionParser::attributes() {
  std::set<std::string> seen;
  const Directives& known = f_.entry ? kOfKernels : kOfFunctions;
  while (cursor_.is_kind(TokenKind::directive)) {
    if (cursor_.is_directive("pragma")) {
      skip_directive(cursor_);
      continue;
    }
    auto it = known.find(cursor_.current().text);
    if (it == known.end())
      cursor_.refuse("unknown directive ." + cursor_.current().text + " of function " + f_.name);
    cursor_.take();
    seen.insert(it->first);
    attribute(it->first, it->second);
  }
  if (seen.count("maxntid") && seen.count("reqntid")) cursor_.refuse(".maxntid excludes .reqntid");
  if (seen.count("blocksareclusters") &&
      (!seen.count("reqntid") || !seen.count("reqnctapercluster")))
    cursor_.refuse(".blocksareclusters needs .reqntid and .reqnctapercluster");
  if (seen.count("noreturn") && !f_.returns.empty())
    cursor_.refuse(".noreturn: function " + f_.name + " returns a value");
}

void FunctionParser::attribute(const std::string& d, int numbers) {
  uint64_t product = 1;
  for (int i = 0; i < numbers && (i == 0 || cursor_.accept(",")); ++i) {
    uint64_t n = cursor_.integer();
    if (n == 0 || n > UINT32_MAX) cursor_.refuse("." + d + " is not a positive number");
    product = std::min<uint64_t>((CheckedSize(product) * n).value(), UINT32_MAX);
  }
  if (d == "maxntid" || d == "reqntid")
    f_.max_threads = (uint32_t)std::min<uint64_t>(product, 1024);
  if (d == "reqnctapercluster" && product > 1)
    cursor_.refuse("." + d + ": thread block clusters are not supported by the software GPU");
}

void FunctionParser::block(int depth) {
  if (depth > kMaxDepth) cursor_.refuse("blocks are nested more than 64 levels deep");
  while (!cursor_.accept("}")) {
    if (cursor_.at_end()) cursor_.refuse("function " + f_.name + " has no closing '}'");
    if (cursor_.accept("{")) {
      scopes_.enter();
      for (auto& name : cursor_.labels_of_block()) scopes_.declare(name);
      block(depth + 1);
      scopes_.leave();
    } else if (cursor_.is_kind(TokenKind::directive)) {
      directive();
    } else if (cursor_.is_kind(TokenKind::word) && cursor_.next().kind == TokenKind::punctuation &&
               cursor_.next().text == ":") {
      label();
    } else {
      f_.body.push_back(InstructionParser(cursor_, scopes_, vectors_).parse());
    }
  }
}

void FunctionParser::directive() {
  if (cursor_.is_directive("loc") || cursor_.is_directive("pragma")) return skip_directive(cursor_);
  if (cursor_.is_directive("reg")) {
    cursor_.take();
    return registers();
  }
  const Variable type = parse_variable_type(cursor_);
  do {
    Variable v = type;
    parse_name(cursor_, v);
    parse_initial_values(cursor_, v);
    v.name = declare(v.name);
    f_.variables.push_back(std::move(v));
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

std::string FunctionParser::declare(const std::string& name) {
  if (name == "_" || scopes_.declared_here(name)) cursor_.refuse(name + " is declared twice");
  return scopes_.declare(name);
}

// A vector is a register for each of its elements.
void FunctionParser::declare_register(const std::string& name, Type type, int elements) {
  std::string own = declare(name);
  if (elements == 1) {
    f_.registers[own] = type;
    return;
  }
  vectors_[own] = elements;
  for (int i = 0; i < elements; ++i) f_.registers[element_of_vector(own, i)] = type;
}

// `.reg .b32 %r<4>, %a;` or `.reg .v4 .f32 %v;`
void FunctionParser::registers() {
  Type type;
  bool typed = false;
  int elements = cursor_.is_directive("v2") ? 2 : cursor_.is_directive("v4") ? 4 : 1;
  if (elements > 1) cursor_.take();
  while (cursor_.is_kind(TokenKind::directive)) {
    std::string d = cursor_.take().text;
    if (!kTypes.count(d) || typed) cursor_.refuse("unknown register type ." + d);
    type = kTypes.at(d);
    typed = true;
  }
  if (!typed) cursor_.refuse("registers without a type");
  if (elements > 1 && (type.kind == 'p' || type.bits > kMaxVectorBits / elements))
    cursor_.refuse("a vector register has predicates or more than 128 bits");
  do {
    std::string name = cursor_.word();
    if (!cursor_.accept("<")) {
      declare_register(name, type, elements);
      continue;
    }
    uint64_t n = cursor_.integer();
    cursor_.expect(">");
    if (n > kMaxRegisters) cursor_.refuse("more than 65536 registers in one declaration");
    for (uint64_t i = 0; i < n; ++i) declare_register(name + std::to_string(i), type, elements);
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

// A label of an instruction, or of a list of branch targets or prototypes.
void FunctionParser::label() {
  std::string name = scopes_.resolve(cursor_.word());
  auto is_named = [&](auto& v) {
    return v.name == name;
  };
  if (name == "$" || vectors_.count(name) ||
      std::any_of(f_.params.begin(), f_.params.end(), is_named) ||
      std::any_of(f_.variables.begin(), f_.variables.end(), is_named))
    cursor_.refuse(name + " may not be a label");
  cursor_.expect(":");
  bool is_register = f_.registers.count(name) > 0;
  if (is_register && !cursor_.is_kind(TokenKind::directive)) return;  // no branch can name it
  if (is_register) cursor_.refuse(name + " may not be a label");
  if (cursor_.is_directive("branchtargets")) {
    cursor_.take();
    do f_.branch_targets[name].push_back(scopes_.resolve(cursor_.word()));
    while (cursor_.accept(","));
    cursor_.expect(";");
  } else if (cursor_.is_directive("callprototype")) {
    f_.call_lists.insert(name);
    prototype();
  } else if (cursor_.is_directive("calltargets")) {
    f_.call_lists.insert(name);
    cursor_.take();
    do {
      if (f_.registers.count(cursor_.word())) cursor_.refuse(".calltargets names a register");
    } while (cursor_.accept(","));
    cursor_.expect(";");
  } else if (!f_.labels.emplace(name, f_.body.size()).second) {
    cursor_.refuse("label " + name + " is defined twice");
  }
}

// `.callprototype (parameters) _ (parameters) .noreturn;`: nothing of it is used.
void FunctionParser::prototype() {
  cursor_.take();
  size_t returns = cursor_.is("(") ? parse_parameters(cursor_).size() : 0;
  if (returns > 1) cursor_.refuse("a prototype returns several values");
  if (cursor_.word() != "_") cursor_.refuse("a prototype has a name");
  if (cursor_.is("(")) (void)parse_parameters(cursor_);
  while (cursor_.is_kind(TokenKind::directive)) {
    std::string d = cursor_.take().text;
    auto it = kOfFunctions.find(d);
    if (it == kOfFunctions.end() || (d == "noreturn" && returns > 0))
      cursor_.refuse("unexpected ." + d + " in a prototype");
    attribute(it->first, it->second);
  }
  cursor_.expect(";");
}

void FunctionParser::check_branches() const {
  for (auto& ins : f_.body)
    if (ins.op == "bra" && (ins.operands.size() != 1 || !f_.labels.count(ins.operands.back().name)))
      throw Refusal{ins.line, "instruction bra: its label does not exist"};
}

}  // namespace softgpu::ptx

#include "softgpu/ptx/function_parser.h"

#include <algorithm>

#include "softgpu/ptx/instruction_parser.h"
#include "softgpu/ptx/variable_parser.h"

namespace softgpu::ptx {

namespace {
constexpr uint64_t kMaxRegisters = 65536;  // of one declaration
constexpr int kMaxDepth = 64;              // of nested blocks
}  // namespace

Function FunctionParser::parse() {
  f_.entry = cursor_.take().text == "entry";
  if (!f_.entry && cursor_.is("(")) f_.returns = parse_parameters(cursor_);
  f_.name = cursor_.word();
  if (cursor_.is("(")) f_.params = parse_parameters(cursor_);
  attributes();
  for (auto* list : {&f_.params, &f_.returns})
    for (auto& p : *list) {
      scopes_.declare(p.name);
      if (p.space == Space::reg) f_.registers[p.name] = p.type;
    }
  if (cursor_.accept(";")) return std::move(f_);
  cursor_.expect("{");
  f_.defined = true;
  block(1);
  check_branches();
  return std::move(f_);
}

void FunctionParser::attributes() {
  while (cursor_.is_kind(TokenKind::directive)) {
    std::string d = cursor_.take().text;
    if (d == "noreturn" || d == "blocksareclusters" || d == "unified") continue;
    uint64_t product = 1;
    if (cursor_.is_kind(TokenKind::integer)) do
        product *= cursor_.integer();
      while (cursor_.accept(","));
    else if (cursor_.is_kind(TokenKind::text))
      cursor_.take();
    if (d == "maxntid" || d == "reqntid")
      f_.max_threads = (uint32_t)std::min<uint64_t>(product, 1024);
    if (d == "reqnctapercluster" && product > 1)
      cursor_.refuse("." + d + ": thread block clusters are not supported by the software GPU");
    if (d == "pragma" || d == "abi_preserve") cursor_.accept(";");
  }
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
      f_.body.push_back(InstructionParser(cursor_, scopes_).parse());
    }
  }
}

void FunctionParser::directive() {
  if (cursor_.is_directive("loc")) return cursor_.skip_line();
  if (cursor_.is_directive("pragma")) return cursor_.skip_past(";", ".pragma");
  if (cursor_.is_directive("reg")) {
    cursor_.take();
    return registers();
  }
  Variable v = parse_declaration(cursor_);
  parse_declaration_end(cursor_, v);
  v.name = scopes_.declare(v.name);
  f_.variables.push_back(std::move(v));
}

// `.reg .b32 %r<4>, %a;`
void FunctionParser::registers() {
  Type type;
  while (cursor_.is_kind(TokenKind::directive)) {
    std::string d = cursor_.take().text;
    if (d == "v2" || d == "v4")
      cursor_.refuse("vector registers are not supported by the software GPU");
    if (!kTypes.count(d)) cursor_.refuse("unknown register type ." + d);
    type = kTypes.at(d);
  }
  do {
    std::string name = cursor_.word();
    if (!cursor_.accept("<")) {
      f_.registers[scopes_.declare(name)] = type;
      continue;
    }
    uint64_t n = cursor_.integer();
    cursor_.expect(">");
    if (n > kMaxRegisters) cursor_.refuse("more than 65536 registers in one declaration");
    for (uint64_t i = 0; i < n; ++i) f_.registers[scopes_.declare(name + std::to_string(i))] = type;
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

// A label of an instruction, or of a list of branch targets or prototypes.
void FunctionParser::label() {
  std::string name = scopes_.resolve(cursor_.word());
  cursor_.expect(":");
  if (cursor_.is_directive("branchtargets")) {
    cursor_.take();
    do f_.branch_targets[name].push_back(scopes_.resolve(cursor_.word()));
    while (cursor_.accept(","));
    cursor_.expect(";");
  } else if (cursor_.is_directive("callprototype") || cursor_.is_directive("calltargets")) {
    cursor_.skip_past(";", ".callprototype or .calltargets");
  } else if (!f_.labels.emplace(name, f_.body.size()).second) {
    cursor_.refuse("label " + name + " is defined twice");
  }
}

void FunctionParser::check_branches() const {
  for (auto& ins : f_.body)
    if (ins.op == "bra" && (ins.operands.empty() || !f_.labels.count(ins.operands.back().name)))
      throw Refusal{ins.line, "instruction bra: its label does not exist"};
}

}  // namespace softgpu::ptx

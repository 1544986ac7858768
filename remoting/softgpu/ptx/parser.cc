#include <algorithm>
#include <optional>

#include "softgpu/ptx/lexer.h"

namespace softgpu::ptx {
namespace {

const std::map<std::string, Type> kTypes = {
    {"b8", {'b', 8}},     {"b16", {'b', 16}}, {"b32", {'b', 32}}, {"b64", {'b', 64}},
    {"b128", {'b', 128}}, {"u8", {'u', 8}},   {"u16", {'u', 16}}, {"u32", {'u', 32}},
    {"u64", {'u', 64}},   {"s8", {'s', 8}},   {"s16", {'s', 16}}, {"s32", {'s', 32}},
    {"s64", {'s', 64}},   {"f16", {'f', 16}}, {"f32", {'f', 32}}, {"f64", {'f', 64}},
    {"pred", {'p', 8}}};

const std::map<std::string, Space> kSpaces = {{"global", Space::global}, {"shared", Space::shared},
                                              {"local", Space::local},   {"const", Space::constant},
                                              {"param", Space::param},   {"reg", Space::reg}};

constexpr uint64_t kMaxVariableBytes = 1ull << 32;
constexpr uint64_t kMaxRegisters = 65536;
constexpr int kMaxDepth = 64;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Module module() {
    while (cur().kind != TokenKind::end) top_level();
    return std::move(module_);
  }

 private:
  const Token& cur() const { return tokens_[at_]; }
  const Token& ahead(size_t n = 1) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  Token take() {
    Token t = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return t;
  }
  [[noreturn]] void refuse(const std::string& why) const { throw Refusal{cur().line, why}; }
  bool is(const char* punctuation) const {
    return cur().kind == TokenKind::punctuation && cur().text == punctuation;
  }
  bool accept(const char* punctuation) {
    if (!is(punctuation)) return false;
    take();
    return true;
  }
  void expect(const char* punctuation) {
    if (!accept(punctuation))
      refuse(std::string("expected '") + punctuation + "' before '" + cur().text + "'");
  }
  bool directive(const char* name) const {
    return cur().kind == TokenKind::directive && cur().text == name;
  }
  std::string word() {
    if (cur().kind != TokenKind::word) refuse("expected a name before '" + cur().text + "'");
    return take().text;
  }
  uint64_t integer() {
    bool minus = accept("-");
    if (cur().kind != TokenKind::integer) refuse("expected a number");
    uint64_t v = take().bits;
    return minus ? 0 - v : v;
  }

  void skip_line() {
    int line = cur().line;
    while (cur().kind != TokenKind::end && cur().line == line) take();
  }

  void top_level() {
    if (cur().kind != TokenKind::directive)
      refuse("expected a directive before '" + cur().text + "'");
    const std::string& d = cur().text;
    if (d == "version") {
      take();
      module_version();
    } else if (d == "target") {
      take();
      module_.target = cur().text;
      skip_line();
    } else if (d == "address_size" || d == "file" || d == "alias" || d == "pragma")
      skip_line();
    else if (d == "section")
      skip_section();
    else if (d == "loc")
      skip_line();
    else
      linked_item();
  }

  void module_version() {
    if (cur().kind == TokenKind::real64) {
      take();
      return;
    }  // "9.0" scans as a real number
    module_.version_major = (int)integer();
    if (cur().kind == TokenKind::directive) take();
  }

  void skip_section() {
    while (cur().kind != TokenKind::end && !is("{")) take();
    int depth = 0;
    do {
      if (is("{")) ++depth;
      if (is("}")) --depth;
      take();
    } while (depth > 0 && cur().kind != TokenKind::end);
  }

  void linked_item() {
    bool external = false;
    weak_ = false;
    while (directive("visible") || directive("extern") || directive("weak") ||
           directive("common") || directive("noreturn")) {
      weak_ |= directive("weak");
      external |= take().text == "extern";
    }
    if (directive("entry") || directive("func"))
      function();
    else {
      Variable v = variable_declaration();
      v.external = external;
      expect_end_of_variable(v);
      module_.variables.push_back(v);
    }
  }

  void expect_end_of_variable(Variable& v) {
    if (accept("=")) initializer(v);
    while (accept(",")) { /* further names share nothing we need */
      word();
    }
    expect(";");
  }

  // Reads `.space .align N .type name[dims]`; the caller deals with an initializer.
  Variable variable_declaration() {
    Variable v;
    if (cur().kind == TokenKind::directive && kSpaces.count(cur().text))
      v.space = kSpaces.at(take().text);
    else
      refuse("unknown directive ." + cur().text);
    bool typed = false;
    int vector = 1;
    while (cur().kind == TokenKind::directive) {
      std::string d = take().text;
      if (d == "align")
        v.align = integer();
      else if (d == "ptr")
        pointer_attributes();
      else if (d == "v2" || d == "v4")
        vector = d == "v2" ? 2 : 4;
      else if (d == "attribute") {
        expect("(");
        while (!accept(")")) {
          if (cur().kind == TokenKind::end) refuse("unfinished .attribute");
          take();
        }
      } else if (kTypes.count(d)) {
        v.type = kTypes.at(d);
        typed = true;
      } else if (d == "texref" || d == "surfref" || d == "samplerref")
        refuse("." + d + " is not supported by the software GPU");
      else
        refuse("unknown type ." + d);
    }
    if (!typed) refuse("a variable has no type");
    v.name = word();
    v.bytes = (uint64_t)v.type.bytes() * (uint64_t)vector;
    v.align = std::max<uint64_t>(v.align, (uint64_t)v.type.bytes());
    if (v.align > 4096 || (v.align & (v.align - 1)))
      refuse("alignment of " + v.name + " is not a power of two up to 4096");
    dimensions(v);
    return v;
  }

  void pointer_attributes() {
    while (cur().kind == TokenKind::directive &&
           (kSpaces.count(cur().text) || cur().text == "align"))
      if (take().text == "align") integer();
  }

  void dimensions(Variable& v) {
    while (accept("[")) {
      uint64_t n = is("]") ? 0 : integer();
      expect("]");
      if (n && v.bytes > kMaxVariableBytes / n)
        refuse("variable " + v.name + " is larger than 4 GiB");
      v.bytes *= n;
    }
  }

  void initializer(Variable& v) {
    v.initial.assign(0, 0);
    initializer_value(v, 0);
    if (v.bytes == 0) v.bytes = v.initial.size();
    if (v.initial.size() > v.bytes) refuse("too many initial values for " + v.name);
    v.initial.resize(v.bytes);
  }

  void append(Variable& v, uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; ++i) v.initial.push_back(i < 8 ? (uint8_t)(bits >> (8 * i)) : 0);
  }

  void initializer_value(Variable& v, int depth) {
    if (depth > kMaxDepth) refuse("an initializer is nested too deeply");
    if (accept("{")) {
      if (!is("}")) do
          initializer_value(v, depth + 1);
        while (accept(","));
      expect("}");
      return;
    }
    if (cur().kind == TokenKind::word) {
      initializer_address(v);
      return;
    }
    if (cur().kind == TokenKind::real32 || cur().kind == TokenKind::real64) {
      append(v, take().bits, v.type.bytes());
      return;
    }
    append(v, integer(), v.type.bytes());
  }

  // `generic(symbol)+4`, `symbol`, `mask(symbol)` is refused.
  void initializer_address(Variable& v) {
    std::string name = word();
    if (accept("(")) {
      if (name != "generic") refuse("initializer " + name + "() is not supported");
      name = word();
      expect(")");
    }
    int64_t addend = 0;
    if (accept("+")) addend = (int64_t)integer();
    v.references.push_back({v.initial.size(), name, addend});
    append(v, 0, v.type.bytes());
  }

  std::vector<Variable> parameter_list() {
    std::vector<Variable> out;
    expect("(");
    while (!accept(")")) {
      out.push_back(variable_declaration());
      if (!accept(",") && !is(")")) refuse("expected ',' or ')' in a parameter list");
    }
    return out;
  }

  void function() {
    Function f;
    f.entry = take().text == "entry";
    scopes_.assign(1, {});
    next_scope_ = 0;
    if (!f.entry && is("(")) f.returns = parameter_list();
    f.name = word();
    if (is("(")) f.params = parameter_list();
    function_attributes(f);
    for (auto* list : {&f.params, &f.returns})
      for (auto& p : *list) {
        scopes_[0][p.name] = p.name;
        if (p.space == Space::reg) f.registers[p.name] = p.type;
      }
    if (accept(";")) {
      declare(std::move(f));
      return;
    }
    expect("{");
    f.defined = true;
    block(f, 1);
    resolve_labels(f);
    declare(std::move(f));
  }

  void declare(Function f) {
    for (auto& g : module_.functions)
      if (g.name == f.name) {
        if (f.defined) {
          if (g.defined && !weak_) refuse("function " + f.name + " is defined twice");
          if (!g.defined) g = std::move(f);
        }
        return;
      }
    module_.functions.push_back(std::move(f));
  }

  void function_attributes(Function& f) {
    while (cur().kind == TokenKind::directive) {
      std::string d = take().text;
      if (d == "noreturn" || d == "blocksareclusters" || d == "unified") continue;
      uint64_t product = 1;
      if (cur().kind == TokenKind::integer) do
          product *= integer();
        while (accept(","));
      else if (cur().kind == TokenKind::text)
        take();
      if (d == "maxntid" || d == "reqntid")
        f.max_threads = (uint32_t)std::min<uint64_t>(product, 1024);
      if (d == "explicitcluster" || d == "reqnctapercluster")
        refuse("." + d + ": thread block clusters are not supported by the software GPU");
      if (d == "pragma" || d == "abi_preserve") accept(";");
    }
  }

  void resolve_labels(Function& f) {
    for (auto& ins : f.body)
      if (ins.op == "bra" && (ins.operands.empty() || !f.labels.count(ins.operands.back().name)))
        throw Refusal{ins.line, "bra to a label that does not exist"};
  }

  // ---- bodies ----
  std::string resolve(const std::string& name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      auto it = scopes_[i].find(name);
      if (it != scopes_[i].end()) return it->second;
    }
    return name;
  }

  void block(Function& f, int depth) {
    if (depth > kMaxDepth) refuse("blocks are nested too deeply");
    while (!accept("}")) {
      if (cur().kind == TokenKind::end) refuse("function " + f.name + " is not finished");
      if (is("{")) {
        take();
        scopes_.emplace_back();
        ++next_scope_;
        block(f, depth + 1);
        scopes_.pop_back();
      } else if (cur().kind == TokenKind::directive)
        body_directive(f);
      else if (cur().kind == TokenKind::word && ahead().kind == TokenKind::punctuation &&
               ahead().text == ":")
        label(f);
      else
        f.body.push_back(instruction());
    }
  }

  std::string scoped(const std::string& name) {
    std::string unique = scopes_.size() == 1 ? name : name + "@" + std::to_string(next_scope_);
    scopes_.back()[name] = unique;
    return unique;
  }

  void label(Function& f) {
    std::string name = word();
    expect(":");
    if (directive("branchtargets")) {
      take();
      do f.branch_targets[name].push_back(word());
      while (accept(","));
      expect(";");
    } else if (directive("callprototype") || directive("calltargets")) {
      while (!is(";") && cur().kind != TokenKind::end) take();
      expect(";");
    } else if (!f.labels.emplace(name, f.body.size()).second)
      refuse("label " + name + " is defined twice");
  }

  void body_directive(Function& f) {
    const std::string& d = cur().text;
    if (d == "loc") {
      skip_line();
      return;
    }
    if (d == "pragma") {
      while (!accept(";")) {
        if (cur().kind == TokenKind::end) refuse("unfinished .pragma");
        take();
      }
      return;
    }
    if (d == "reg") {
      take();
      registers(f);
      return;
    }
    Variable v = variable_declaration();
    std::string plain = v.name;
    expect_end_of_variable(v);
    v.name = scoped(plain);
    f.variables.push_back(std::move(v));
  }

  void registers(Function& f) {
    Type type;
    while (cur().kind == TokenKind::directive) {
      std::string d = take().text;
      if (d == "v2" || d == "v4") refuse("vector registers are not supported");
      if (!kTypes.count(d)) refuse("unknown register type ." + d);
      type = kTypes.at(d);
    }
    do {
      std::string name = word();
      if (accept("<")) {
        uint64_t n = integer();
        expect(">");
        if (n > kMaxRegisters) refuse("more than 65536 registers in one declaration");
        for (uint64_t i = 0; i < n; ++i) f.registers[scoped(name + std::to_string(i))] = type;
      } else
        f.registers[scoped(name)] = type;
    } while (accept(","));
    expect(";");
  }

  Instruction instruction() {
    Instruction ins;
    ins.line = cur().line;
    if (accept("@")) {
      ins.guard_negated = accept("!");
      ins.guard = resolve(word());
    }
    ins.op = word();
    while (cur().kind == TokenKind::directive) ins.mods.push_back(take().text);
    if (ins.op == "call")
      call(ins);
    else if (!is(";"))
      do ins.operands.push_back(operand());
      while (accept(","));
    expect(";");
    return ins;
  }

  void call(Instruction& ins) {
    if (is("(")) {
      ins.call_returns = operand_list();
      expect(",");
    }
    ins.operands.push_back(operand());
    if (accept(",")) {
      if (is("("))
        ins.call_arguments = operand_list();
      else {
        operand();
        return;
      }
      if (accept(",")) operand();  // prototype or target list
    }
  }

  Checked<Operand> operand_list() {
    Checked<Operand> out;
    expect("(");
    while (!accept(")")) {
      out.push_back(operand());
      if (!accept(",") && !is(")")) refuse("expected ',' or ')'");
    }
    return out;
  }

  Operand operand() {
    Operand first = simple_operand();
    if (accept("|")) {
      Operand pair{OperandKind::pair, "", 0, 0, false, {}};
      pair.elements = {first, simple_operand()};
      return pair;
    }
    return first;
  }

  Operand simple_operand() {
    if (accept("[")) return address();
    if (accept("{")) return vector();
    Operand o;
    if (accept("!")) o.negated = true;
    switch (cur().kind) {
      case TokenKind::integer:
        o.kind = OperandKind::integer;
        o.bits = take().bits;
        return o;
      case TokenKind::real32:
        o.kind = OperandKind::real32;
        o.bits = take().bits;
        return o;
      case TokenKind::real64:
        o.kind = OperandKind::real64;
        o.bits = take().bits;
        return o;
      case TokenKind::punctuation:
        if (is("-")) {
          o.kind = OperandKind::integer;
          o.bits = integer();
          return o;
        }
        break;
      case TokenKind::word: name(o); return o;
      default: break;
    }
    refuse("expected an operand before '" + cur().text + "'");
  }

  void name(Operand& o) {
    std::string text = take().text;
    if (text == "_") {
      o.kind = OperandKind::sink;
      return;
    }
    o.name = resolve(text);
    if (text == "WARP_SZ") {
      o.kind = OperandKind::integer;
      o.bits = 32;
      return;
    }
    o.kind = text[0] == '%' && o.name == text && !declared(text)
                 ? OperandKind::special
                 : OperandKind::reg;  // symbols are told apart by the emitter
    if (cur().kind == TokenKind::directive && cur().glued &&
        (cur().text == "x" || cur().text == "y" || cur().text == "z" || cur().text == "w"))
      o.name += "." + take().text;
    if (is("+")) {
      take();
      o.kind = OperandKind::symbol;
      o.offset = (int64_t)integer();
    }
  }

  bool declared(const std::string& n) const {
    for (auto& s : scopes_)
      if (s.count(n)) return true;
    return false;
  }

  Operand address() {
    Operand a{OperandKind::address, "", 0, 0, false, {}};
    if (cur().kind == TokenKind::integer) {
      a.offset = (int64_t)integer();
    } else {
      Operand base{OperandKind::reg, resolve(word()), 0, 0, false, {}};
      a.elements.push_back(base);
      if (accept("+"))
        a.offset = (int64_t)integer();
      else if (is("-"))
        a.offset = (int64_t)integer();
      if (accept(",")) a.elements.push_back(simple_operand());  // a texture and the coordinates
    }
    expect("]");
    return a;
  }

  Operand vector() {
    Operand v{OperandKind::vector, "", 0, 0, false, {}};
    do v.elements.push_back(simple_operand());
    while (accept(","));
    expect("}");
    if (v.elements.size() > 8) refuse("a vector has more than 8 elements");
    return v;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  std::vector<std::map<std::string, std::string>> scopes_;
  int next_scope_ = 0;
  bool weak_ = false;  // the item that is read may be there already
};

}  // namespace

Module parse(const std::string& text) {
  return Parser(tokenize(text)).module();
}

}  // namespace softgpu::ptx

// Modules: directives, variables and functions at the top level.
#include <algorithm>
#include <set>

#include "softgpu/ptx/aliases.h"
#include "softgpu/ptx/array_elements.h"
#include "softgpu/ptx/directive_parser.h"
#include "softgpu/ptx/function_parser.h"
#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/token_cursor.h"
#include "softgpu/ptx/variable_parser.h"

namespace softgpu::ptx {
namespace {

// Return whether two declarations of a function have the same parameters.
bool agree(const Function& a, const Function& b) {
  auto same = [](const std::vector<Variable>& x, const std::vector<Variable>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](auto& v, auto& w) {
      return v.space == w.space && v.type.bits == w.type.bits && v.bytes == w.bytes;
    });
  };
  return a.entry == b.entry && same(a.params, b.params) && same(a.returns, b.returns);
}

// Return whether two declarations of a variable agree as NVIDIA's linker compares them: each with
// what counts until then, so that the order of the texts matters. An array may have no size, and a
// .common variable may be smaller than another one or than an initialized definition.
bool agree(const Variable& a, const Variable& b) {
  auto may_be_smaller = [](const Variable& v, const Variable& than) {
    bool has_value = than.common || !than.initial.empty();
    return !v.bytes || (v.common && has_value && v.bytes < than.bytes);
  };
  return a.space == b.space && (a.bytes == b.bytes || may_be_smaller(a, b) || may_be_smaller(b, a));
}

class ModuleParser {
 public:
  explicit ModuleParser(std::vector<Token> tokens) : cursor_(std::move(tokens)) {}

  Module parse() {
    while (!cursor_.at_end()) top_level();
    resolve_aliases(module_, aliases_);
    return std::move(module_);
  }

 private:
  void top_level();
  void check_once(const std::string& directive);
  void version();
  void target();
  void alias();
  void skip_section();
  void skip_section_data();
  void linked_item();
  void check_module_variable(const Variable& v, const std::string& linkage) const;
  bool is_weak(const Function& f, const std::string& linkage);
  bool prevails(const std::string& name, bool is_defined, bool weak);
  void declare(Function f, bool weak);
  void declare(Variable v, bool weak);

  TokenCursor cursor_;
  Module module_;
  std::set<std::string> seen_;                   // directives
  std::map<std::string, size_t> variables_;      // by name, to the index in module_
  std::map<std::string, Variable> newest_;       // declaration of a variable, without its value
  std::set<std::string> weak_;                   // names whose definition another one may replace
  std::map<std::string, std::string> linkages_;  // of the newest prototype of a function
  std::vector<Alias> aliases_;
};

// The directives that a module has once.
void ModuleParser::check_once(const std::string& directive) {
  if (!seen_.insert(directive).second) cursor_.refuse("." + directive + " is repeated");
}

void ModuleParser::top_level() {
  if (!cursor_.is_kind(TokenKind::directive))
    cursor_.refuse("expected a directive before '" + cursor_.current().text + "'");
  const std::string& d = cursor_.current().text;
  if (d == "version" || d == "target" || d == "address_size") check_once(d);
  if (d == "version") {
    version();
  } else if (d == "target") {
    target();
  } else if (d == "address_size") {
    cursor_.take();
    if (cursor_.integer() != 64) cursor_.refuse(".address_size is not 64");
  } else if (d == "file" || d == "pragma") {
    skip_directive(cursor_);
  } else if (d == "alias") {
    alias();
  } else if (d == "section") {
    skip_section();
  } else {
    linked_item();
  }
}

void ModuleParser::version() {
  cursor_.take();
  if (cursor_.is_kind(TokenKind::real64)) {  // "9.0" is scanned as a real number
    cursor_.take();
    return;
  }
  module_.version_major = (int)cursor_.integer();
  if (cursor_.is_kind(TokenKind::directive)) cursor_.take();
}

// `.target sm_90, texmode_independent`
void ModuleParser::target() {
  static const std::set<std::string> kOptions = {"texmode_unified", "texmode_independent", "debug",
                                                 "map_f64_to_f32"};
  cursor_.take();
  module_.target = cursor_.word();
  if (module_.target.rfind("sm_", 0) != 0) cursor_.refuse("unknown target " + module_.target);
  while (cursor_.accept(","))
    if (std::string option = cursor_.word(); !kOptions.count(option))
      cursor_.refuse("unknown target " + option);
}

// `.alias a, b;` of two functions
void ModuleParser::alias() {
  int line = cursor_.current().line;
  cursor_.take();
  std::string name = cursor_.word();
  cursor_.expect(",");
  std::string aliasee = cursor_.word();
  for (auto& n : {name, aliasee})
    if (auto* f = module_.function(n); !f || f->entry)
      cursor_.refuse(n + " in an alias is no function");
  if (!agree(*module_.function(name), *module_.function(aliasee)))
    cursor_.refuse("alias " + name + " has other parameters than " + aliasee);
  aliases_.push_back({name, aliasee, line});
  cursor_.expect(";");
}

// `.section .debug_info { L: .b8 1, 2 .b32 L-M .b64 .debug_str+4 }`: nothing of it is used.
void ModuleParser::skip_section() {
  cursor_.take();
  if (!cursor_.is_kind(TokenKind::directive)) cursor_.refuse("a section has no name");
  cursor_.take();
  cursor_.expect("{");
  while (!cursor_.accept("}")) {
    if (cursor_.is_kind(TokenKind::word)) {
      cursor_.take();
      cursor_.expect(":");
      continue;
    }
    skip_section_data();
  }
}

void ModuleParser::skip_section_data() {
  static const std::set<std::string> kTypes = {"b8", "b16", "b32", "b64"};
  if (!cursor_.is_kind(TokenKind::directive) || !kTypes.count(cursor_.take().text))
    cursor_.refuse("expected .b8, .b16, .b32 or .b64 before '" + cursor_.current().text + "'");
  do {
    do {
      if (cursor_.is_kind(TokenKind::word) || cursor_.is_kind(TokenKind::directive))
        cursor_.take();
      else
        cursor_.integer();
    } while (cursor_.accept("+") || cursor_.accept("-"));
  } while (cursor_.accept(","));
}

void ModuleParser::check_module_variable(const Variable& v, const std::string& linkage) const {
  if (v.space != Space::global && v.space != Space::constant && v.space != Space::shared)
    cursor_.refuse("variable " + v.name + " is not in .global, .const or .shared");
  if (linkage == "common" && v.space != Space::global)
    cursor_.refuse(".common belongs to variables in .global");
  if (v.name == "_") cursor_.refuse("'_' is no name of a variable");
  for (auto& f : module_.functions)
    if (f.name == v.name) cursor_.refuse(v.name + " is a function and a variable");
}

// A function or variable with its linkage.
void ModuleParser::linked_item() {
  static const std::set<std::string> kLinkages = {"visible", "extern", "weak", "common"};
  std::string linkage;
  while (cursor_.is_kind(TokenKind::directive) && kLinkages.count(cursor_.current().text)) {
    if (!linkage.empty()) cursor_.refuse("a declaration has several linkages");
    linkage = cursor_.take().text;
  }
  if (cursor_.is_directive("entry") || cursor_.is_directive("func")) {
    if (linkage == "common") cursor_.refuse(".common belongs to variables in .global");
    Function f = FunctionParser(cursor_).parse();
    if (f.defined && linkage == "extern")
      cursor_.refuse("external function " + f.name + " has a body");
    resolve_elements(f, newest_);
    bool weak = is_weak(f, linkage);
    return declare(std::move(f), weak);
  }
  const Variable type = parse_variable_type(cursor_);
  do {
    Variable v = type;
    parse_name(cursor_, v);
    v.external = linkage == "extern";
    v.common = linkage == "common";
    check_module_variable(v, linkage);
    newest_[v.name] = v;
    parse_initial_values(cursor_, v);
    declare(std::move(v), v.common || linkage == "weak");
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

// A definition without linkage has that of its prototype. That of a function is in the same text:
// the linker has renamed the function if only another text gives its name a linkage. A kernel keeps
// its name, and has the linkage of its newest prototype in any text.
bool ModuleParser::is_weak(const Function& f, const std::string& linkage) {
  if (!f.defined && !linkage.empty()) linkages_[f.name] = linkage;
  return (linkage.empty() ? linkages_[f.name] : linkage) == "weak";
}

// Return whether a definition of a name takes the place of what is known of it. A weak definition
// is dropped if there is another one.
bool ModuleParser::prevails(const std::string& name, bool is_defined, bool weak) {
  if (!is_defined && weak) weak_.insert(name);
  if (!is_defined || weak) return !is_defined;
  return weak_.erase(name) > 0;
}

// Add a variable or complete its declaration.
void ModuleParser::declare(Variable v, bool weak) {
  auto [it, fresh] = variables_.emplace(v.name, module_.variables.size());
  const Variable* known = fresh ? nullptr : &module_.variables[it->second];
  if (known && !agree(v, *known))
    cursor_.refuse("variable " + v.name + " is declared with another size or space");
  bool is_used = !v.external && prevails(v.name, known && !known->external, weak);
  if (fresh)
    module_.variables.push_back(std::move(v));
  else if (is_used || (known->common && v.bytes > known->bytes))
    module_.variables[it->second] = std::move(v);
  else if (!v.external && !weak)
    cursor_.refuse("variable " + v.name + " is declared twice");
}

// Add a function or complete its declaration.
void ModuleParser::declare(Function f, bool weak) {
  if (variables_.count(f.name)) cursor_.refuse(f.name + " is a function and a variable");
  auto it = std::find_if(module_.functions.begin(), module_.functions.end(),
                         [&](auto& g) { return g.name == f.name; });
  bool fresh = it == module_.functions.end();
  if (!fresh && !agree(f, *it))
    cursor_.refuse("function " + f.name + " is declared with other parameters");
  bool is_used = f.defined && prevails(f.name, !fresh && it->defined, weak);
  if (fresh)
    module_.functions.push_back(std::move(f));
  else if (is_used)
    *it = std::move(f);
  else if (f.defined && !weak)
    cursor_.refuse("function " + f.name + " is defined twice");
}

}  // namespace

Module parse(const std::string& text) {
  return ModuleParser(tokenize(text)).parse();
}

}  // namespace softgpu::ptx

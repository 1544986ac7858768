// Modules: directives, variables and functions at the top level.
#include <algorithm>

#include "softgpu/ptx/function_parser.h"
#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/token_cursor.h"
#include "softgpu/ptx/variable_parser.h"

namespace softgpu::ptx {
namespace {

class ModuleParser {
 public:
  explicit ModuleParser(std::vector<Token> tokens) : cursor_(std::move(tokens)) {}

  Module parse() {
    while (!cursor_.at_end()) top_level();
    return std::move(module_);
  }

 private:
  void top_level();
  void version();
  void skip_section();
  void linked_item();
  void declare(Function f, bool weak);
  void declare(Variable v, bool weak);

  TokenCursor cursor_;
  Module module_;
  std::map<std::string, size_t> variables_;  // by name, to the index in module_
};

void ModuleParser::top_level() {
  if (!cursor_.is_kind(TokenKind::directive))
    cursor_.refuse("expected a directive before '" + cursor_.current().text + "'");
  const std::string& d = cursor_.current().text;
  if (d == "version") {
    version();
  } else if (d == "target") {
    module_.target = cursor_.next().text;
    cursor_.skip_line();
  } else if (d == "address_size" || d == "file" || d == "alias" || d == "pragma" || d == "loc") {
    cursor_.skip_line();
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

// A debug section: braces and their contents.
void ModuleParser::skip_section() {
  while (!cursor_.at_end() && !cursor_.is("{")) cursor_.take();
  int depth = 0;
  do {
    if (cursor_.is("{")) ++depth;
    if (cursor_.is("}")) --depth;
    cursor_.take();
  } while (depth > 0 && !cursor_.at_end());
}

// A function or variable with its linkage.
void ModuleParser::linked_item() {
  bool external = false, weak = false;
  while (cursor_.is_directive("visible") || cursor_.is_directive("extern") ||
         cursor_.is_directive("weak") || cursor_.is_directive("common") ||
         cursor_.is_directive("noreturn")) {
    std::string linkage = cursor_.take().text;
    weak |= linkage == "weak" || linkage == "common";
    external |= linkage == "extern";
  }
  if (cursor_.is_directive("entry") || cursor_.is_directive("func"))
    return declare(FunctionParser(cursor_).parse(), weak);
  Variable v = parse_declaration(cursor_);
  v.external = external;
  parse_declaration_end(cursor_, v);
  declare(std::move(v), weak);
}

// Add a variable or complete its declaration. A weak definition is dropped if there is another one.
void ModuleParser::declare(Variable v, bool weak) {
  auto [it, fresh] = variables_.emplace(v.name, module_.variables.size());
  if (fresh) {
    module_.variables.push_back(std::move(v));
    return;
  }
  Variable& known = module_.variables[it->second];
  if (known.external && !v.external)
    known = std::move(v);
  else if (!v.external && !weak)
    cursor_.refuse("variable " + v.name + " is declared twice");
}

// Add a function or complete its declaration. A weak definition is dropped if there is another one.
void ModuleParser::declare(Function f, bool weak) {
  auto it = std::find_if(module_.functions.begin(), module_.functions.end(),
                         [&](auto& g) { return g.name == f.name; });
  if (it == module_.functions.end())
    module_.functions.push_back(std::move(f));
  else if (f.defined && !it->defined)
    *it = std::move(f);
  else if (f.defined && !weak)
    cursor_.refuse("function " + f.name + " is defined twice");
}

}  // namespace

Module parse(const std::string& text) {
  return ModuleParser(tokenize(text)).parse();
}

}  // namespace softgpu::ptx

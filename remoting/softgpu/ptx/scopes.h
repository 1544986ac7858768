// Names that nested blocks of a function declare. A name of an inner block gets a suffix, so that
// all names of the function are unique.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace softgpu::ptx {

class Scopes {
 public:
  void enter() { scopes_.push_back({++entered_, {}}); }
  void leave() { scopes_.pop_back(); }

  // Declare `name` in the innermost scope. Return its unique name.
  std::string declare(const std::string& name) {
    Scope& scope = scopes_.back();
    return scope.names[name] =
               scopes_.size() == 1 ? name : name + "@" + std::to_string(scope.number);
  }
  // Return whether the innermost scope declares `name`.
  bool declared_here(const std::string& name) const { return scopes_.back().names.count(name) > 0; }
  // Return the unique name of a declared name, or `name` itself if it is not declared.
  std::string resolve(const std::string& name) const {
    for (size_t i = scopes_.size(); i-- > 0;)
      if (auto it = scopes_[i].names.find(name); it != scopes_[i].names.end()) return it->second;
    return name;
  }
  bool declared(const std::string& name) const {
    for (auto& scope : scopes_)
      if (scope.names.count(name)) return true;
    return false;
  }

 private:
  struct Scope {
    int number;  // of the function, in order of their begin
    std::map<std::string, std::string> names;
  };
  std::vector<Scope> scopes_{{0, {}}};  // the outermost first
  int entered_ = 0;
};

}  // namespace softgpu::ptx

#include "softgpu/driver/local_names.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace softgpu {
namespace {
using Words = std::set<std::string_view>;

// A kernel is found by its name, also without linkage.
const Words kShared = {".visible", ".extern", ".weak", ".common", ".entry"};
const Words kDeclaring = {".global", ".const", ".shared", ".func", ".entry"};

bool is_name(std::string_view word) {
  return std::isalpha((unsigned char)word[0]) || std::string_view("_$%").find(word[0]) != word.npos;
}

bool belongs_to_word(char c) {
  return std::isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

// The words and punctuation of PTX, without comments and strings.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}
  // Return the next word, or an empty one at the end.
  std::string_view next() {
    skip_others();
    size_t from = at_;
    if (at_ < text_.size()) ++at_;
    if (from < text_.size() && (belongs_to_word(text_[from]) || text_[from] == '.'))
      while (at_ < text_.size() && belongs_to_word(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }

 private:
  void skip_others() {
    while (at_ < text_.size()) {
      if (std::isspace((unsigned char)text_[at_]))
        ++at_;
      else if (text_.substr(at_, 2) == "//")
        skip_behind("\n", 2);
      else if (text_.substr(at_, 2) == "/*")
        skip_behind("*/", 2);
      else if (text_[at_] == '"')
        skip_behind("\"", 1);
      else
        return;
    }
  }
  void skip_behind(std::string_view end, size_t begin) {
    size_t found = text_.find(end, at_ + begin);
    at_ = found == text_.npos ? text_.size() : found + end.size();
  }
  std::string_view text_;
  size_t at_ = 0;
};

// A declaration outside of functions, as far as it has been read.
struct Declaration {
  bool declares = false, shared = false, has_value = false;
  std::string_view name;
};

struct Names {
  Words local, shared;
};

void end_name(Declaration& d, Names& names) {
  if (!d.name.empty()) (d.shared ? names.shared : names.local).insert(d.name);
  d.name = {};
}

void add(std::string_view word, Declaration& d) {
  d.shared |= kShared.count(word) != 0;
  d.declares |= kDeclaring.count(word) != 0;
  d.has_value |= word == "=";
  if (d.declares && d.name.empty() && is_name(word)) d.name = word;
}

// Return the names that a text declares outside of functions. A prototype may give a function its
// linkage, and the definition repeat the name without.
Names names_of(std::string_view text) {
  Names names;
  Declaration d;
  WordReader reader(text);
  int braces = 0, parentheses = 0;
  for (auto word = reader.next(); !word.empty(); word = reader.next()) {
    braces += (word == "{") - (word == "}");
    parentheses += (word == "(") - (word == ")");
    if (braces || parentheses) continue;
    bool ends = word == ";" || (word == "}" && !d.has_value);  // a list goes on behind a value
    if (ends || word == ",")
      end_name(d, names);
    else
      add(word, d);
    if (ends) d = {};
  }
  for (auto name : names.shared) names.local.erase(name);
  return names;
}

// Return whether a word that is called like a name is something else, by its neighbors: a modifier
// or an instruction, as in `shared::cta` and `add.u32`, the operator of a value, as in
// `= generic(x)`, or the common part of several registers, as in `r<4>`.
bool has_other_meaning(std::string_view before, std::string_view behind) {
  static const Words kBeforeValue = {"=", "{", ","}, kBeforeFunction = {".func", ")"};
  static const Words kElements = {".x", ".y", ".z", ".w", ".r", ".g", ".b", ".a"};
  if (before == ":" || behind == "<") return true;
  if (behind == "(") return kBeforeValue.count(before) != 0;
  return behind.starts_with('.') && !kElements.count(behind) && !kBeforeFunction.count(before);
}

// The registers that the blocks around a word declare as sets: `.reg .b32 r<4>` declares r0 to r3.
// They hide what the text declares outside of functions.
class RegisterSets {
 public:
  void read(std::string_view word) {
    if (word == "{") outer_.push_back(sets_.size());
    if (word == "}" && !outer_.empty()) {
      sets_.resize(outer_.back());
      outer_.pop_back();
    }
    if (last_[1] == "<" && is_name(last_[0]))
      sets_.push_back({last_[0], std::strtoull(std::string(word).c_str(), nullptr, 0)});
    last_[0] = std::exchange(last_[1], word);
  }
  bool contain(std::string_view name) const {
    return std::any_of(sets_.begin(), sets_.end(), [&](const Set& set) {
      if (!name.starts_with(set.common_part)) return false;
      std::string number(name.substr(set.common_part.size()));
      auto n = std::strtoull(number.c_str(), nullptr, 10);
      return number == std::to_string(n) && n < set.size;
    });
  }

 private:
  struct Set {
    std::string_view common_part;
    unsigned long long size = 0;
  };
  std::string_view last_[2] = {";", ";"};  // the two words before
  std::vector<Set> sets_;
  std::vector<size_t> outer_;  // for each open block the number of sets outside of it
};

// The words that begin a statement of a function, behind its guard: opcodes and labels.
class StatementBegins {
 public:
  // Must be called with all words in order.
  bool contain(std::string_view word) {
    bool is_first = std::exchange(next_is_first_, false);
    if (in_location_ && !is_of_location(word)) in_location_ = false, is_first = true;
    in_location_ |= word == ".loc";
    if (word == "{") next_is_first_ = is_first || (!braces_ && last_ != "=");
    if (word == ";" || word == ":" || word == "}") next_is_first_ = true;
    if (in_guard_ && word != "!") in_guard_ = false, next_is_first_ = true;
    if (word == "@") in_guard_ = true;
    braces_ += (word == "{") - (word == "}");
    last_ = word;
    return is_first;
  }

 private:
  // `.loc 1 5 3, function_name f+8, inlined_at 1 4 2` ends without a semicolon.
  bool is_of_location(std::string_view word) const {
    return std::isdigit((unsigned char)word[0]) || word == "," || word == "+" || last_ == "," ||
           last_ == "function_name";
  }
  bool next_is_first_ = false, in_guard_ = false, in_location_ = false;
  int braces_ = 0;
  std::string_view last_;
};

using NewNames = std::map<std::string_view, std::string>;

std::string renamed(std::string_view text, const NewNames& names) {
  std::string out;
  WordReader reader(text);
  RegisterSets sets;
  StatementBegins begins;
  size_t copied = 0;
  bool of_target = false;  // in the list of .target, as the word debug
  std::string_view before, word = reader.next(), behind;
  for (; !word.empty(); before = word, word = behind) {
    behind = reader.next();
    size_t from = (size_t)(word.data() - text.data());
    sets.read(word);
    of_target = word == ".target" || (of_target && word[0] != '.');
    bool is_opcode = begins.contain(word) && behind != ":";
    auto name = names.find(word);
    if (name == names.end() || of_target || is_opcode || sets.contain(word) ||
        has_other_meaning(before, behind))
      continue;
    out.append(text.substr(copied, from - copied)).append(name->second);
    copied = from + word.size();
  }
  return out.append(text.substr(copied));
}
}  // namespace

std::vector<std::string> with_distinct_names(const std::vector<std::string>& texts) {
  std::vector<Names> names;
  std::set<std::string> taken;
  for (auto& text : texts) names.push_back(names_of(text));
  for (auto& of_text : names) taken.insert(of_text.shared.begin(), of_text.shared.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    NewNames changed;
    for (auto name : names[i].local) {
      std::string free(name);
      for (size_t n = 0; !taken.insert(free).second; ++n)
        free = std::string(name) + "$text" + std::to_string(i) + "_" + std::to_string(n);
      if (free != name) changed.emplace(name, free);
    }
    out.push_back(renamed(texts[i], changed));
  }
  return out;
}

}  // namespace softgpu

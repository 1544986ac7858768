#include "softgpu/driver/local_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

namespace softgpu {
namespace {
using Words = std::set<std::string_view>;

const Words kShared = {".visible", ".weak", ".common"};
const Words kDeclaring = {".global", ".const", ".shared", ".func"};

bool is_name(std::string_view word) {
  return std::isalpha((unsigned char)word[0]) || word[0] == '_' || word[0] == '$';
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
  bool declares = false, shared = false, external = false;
  std::string_view name;
};

struct Names {
  Words local, all;
};

void end(Declaration& d, Names& names) {
  if (d.declares && !d.external && !d.name.empty()) {
    names.all.insert(d.name);
    if (!d.shared) names.local.insert(d.name);
  }
  d = {};
}

void add(std::string_view word, Declaration& d) {
  d.shared |= kShared.count(word) != 0;
  d.external |= word == ".extern";
  d.declares |= kDeclaring.count(word) != 0;
  if (d.declares && d.name.empty() && is_name(word)) d.name = word;
}

// Return the names that a text defines outside of functions.
Names names_of(std::string_view text) {
  Names names;
  Declaration d;
  WordReader reader(text);
  int braces = 0, parentheses = 0;
  for (auto word = reader.next(); !word.empty(); word = reader.next()) {
    braces += (word == "{") - (word == "}");
    parentheses += (word == "(") - (word == ")");
    if (braces || parentheses) continue;
    if (word == ";" || word == "}")
      end(d, names);
    else
      add(word, d);
  }
  return names;
}

// Append a suffix to names, but not to instructions and modifiers that are called so.
std::string with_suffix(std::string_view text, const Words& names, const std::string& suffix) {
  std::string out;
  WordReader reader(text);
  size_t copied = 0;
  for (auto word = reader.next(); !word.empty(); word = reader.next()) {
    size_t from = (size_t)(word.data() - text.data()), behind = from + word.size();
    bool instruction = behind < text.size() && text[behind] == '.';
    bool modifier = from && text[from - 1] == ':';
    if (!names.count(word) || instruction || modifier) continue;
    out.append(text.substr(copied, behind - copied)).append(suffix);
    copied = behind;
  }
  return out.append(text.substr(copied));
}
}  // namespace

std::vector<std::string> with_distinct_names(const std::vector<std::string>& texts) {
  std::vector<Names> names;
  std::map<std::string_view, int> uses;
  for (auto& text : texts) names.push_back(names_of(text));
  for (auto& of_text : names)
    for (auto name : of_text.all) ++uses[name];
  std::vector<std::string> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    Words renamed;
    std::copy_if(names[i].local.begin(), names[i].local.end(),
                 std::inserter(renamed, renamed.end()), [&](auto name) { return uses[name] > 1; });
    out.push_back(with_suffix(texts[i], renamed, "$text" + std::to_string(i)));
  }
  return out;
}

}  // namespace softgpu

#include "softgpu/emit/code.h"

namespace softgpu::emit {

std::string detail::fill(std::string_view pattern, std::initializer_list<std::string> pieces) {
  size_t length = pattern.size();
  for (auto& p : pieces) length += p.size();
  std::string out;
  out.reserve(length);
  auto piece = pieces.begin();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 1 < pattern.size() && pattern[i + 1] == '}') {
      out += *piece++;
      ++i;
    } else
      out += pattern[i];
  }
  return out;
}

Code::Block Code::open(const std::string& head, const std::string& tail) {
  put(head.empty() ? "{" : head + " {");
  tails_.push_back(tail);
  ++depth_;
  return Block(*this);
}

void Code::close() {
  --depth_;
  put("}" + tails_.back());
  tails_.pop_back();
}

void Code::append(const Code& other) {
  for (auto& line : other.lines_)
    lines_.push_back({line.depth < 0 ? line.depth : depth_ + line.depth, line.text});
}

void Code::append_text(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  lines_.push_back({-1, std::move(text)});
}

std::string Code::text() const {
  std::string out;
  for (auto& line : lines_) {
    if (line.depth > 0) out.append(2 * (size_t)line.depth, ' ');
    out += line.text;
    out += '\n';
  }
  return out;
}

}  // namespace softgpu::emit

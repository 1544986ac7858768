#include "control/log.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace busbar::control {

namespace {
std::string now_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  char date[32], text[40];
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%03dZ", date, (int)(now.tv_nsec / 1'000'000));
  return text;
}

// For a text that escaped() has returned.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}
}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", (unsigned char)c);
    if (c >= ' ' && c <= '~')
      out += c;
    else
      out += code;
  }
  return out;
}

void log_line(const char* component, const char* event, const std::string& object,
              const std::string& consequence) {
  const char* format = std::getenv(kLogFormat);
  std::string name = component, message = escaped(event + (": " + object) + ": " + consequence);
  std::string line;
  if (format && !std::strcmp(format, "json"))
    line = R"({"time":)" + quoted(now_text()) + R"(,"level":"INFO","logger":)" + quoted(name) +
           R"(,"message":)" + quoted(message) + "}\n";
  else if (format && !std::strcmp(format, "plain"))
    line = name + ": " + message + "\n";
  else
    line = now_text() + " " + name + ": " + message + "\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace busbar::control

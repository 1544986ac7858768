// Log lines on standard error, one write each, in a format that BUSBAR_LOG_FORMAT chooses:
//   text:  2026-11-23T17:46:35.120Z launcher: connection refused: 10.0.0.7:51234: ...
//   json:  {"time":"...","level":"INFO","logger":"launcher","message":"connection refused: ..."}
//   plain: launcher: connection refused: ...  (for session servers: the spawner adds the time)
// Control characters are escaped, so that no text makes a second line.
//
// Thread safety: any thread.
#pragma once
#include <string>

namespace busbar::control {

constexpr char kLogFormat[] = "BUSBAR_LOG_FORMAT";

void log_line(const char* component, const char* event, const std::string& object,
              const std::string& consequence);

// Returns the text without control characters and bytes outside ASCII.
std::string escaped(const std::string& text);

}  // namespace busbar::control

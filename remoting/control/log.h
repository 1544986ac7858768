// Log lines on standard error, one write each:
//   2026-11-23T17:46:35Z launcher: connection refused: 10.0.0.7:51234: the ticket has expired
#pragma once
#include <string>

namespace busbar::control {

void log_line(const char* component, const char* event, const std::string& object,
              const std::string& consequence);

}  // namespace busbar::control

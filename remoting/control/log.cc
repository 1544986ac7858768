#include "control/log.h"

#include <time.h>
#include <unistd.h>

namespace busbar::control {

void log_line(const char* component, const char* event, const std::string& object,
              const std::string& consequence) {
  char stamp[32];
  time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
  std::string line = std::string(stamp) + " " + component + ": " + event + ": " + object + ": " +
                     consequence + "\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace busbar::control

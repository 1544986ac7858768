// Output of session servers and compilers for the log. Native code of a tenant may write anything
// at any rate, so each process has a pipe of its own: its lines are escaped and begin with its pid,
// and a process that writes too much loses the rest.
//
// Thread safety: for one thread. No member blocks.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace busbar::spawner {

class SessionOutput {
 public:
  // Takes over the read end of a process's pipe. Writes to the other end must not block.
  void add(int fd, pid_t pid);
  // Appends the pipes that may be read now. The others wait until they have a budget again.
  void append_to(std::vector<pollfd>& waits);
  // Logs the lines of pipes that are ready, and forgets pipes that have ended.
  void read(const std::vector<pollfd>& ready);

 private:
  struct Pipe {
    pid_t pid;
    std::string rest;  // a line that is not complete
    int64_t budget_bytes;
    int64_t filled_ms;  // when the budget was last filled up
  };
  static void log(Pipe& pipe, const std::string& line);
  static void refill(Pipe& pipe);
  bool read(int fd, Pipe& pipe);
  std::map<int, Pipe> pipes_;  // by descriptor
};

}  // namespace busbar::spawner

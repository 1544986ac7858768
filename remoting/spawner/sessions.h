// The session servers of the spawner, each with its compiler if the GPUs are software.
//
// Thread safety: for one thread.
#pragma once
#include <map>
#include <string>

#include "control/spawn_messages.h"
#include "spawner/cage.h"
#include "spawner/cage_users.h"
#include "spawner/control_groups.h"

namespace busbar::spawner {

struct Settings {
  std::string runtime, session_program, driver;
};

class Sessions {
 public:
  // `can_cage`: the process may make namespaces.
  Sessions(const Settings& settings, bool can_cage);

  // Starts a session server. Takes over the pipe, which gets its exit status as an int.
  control::SpawnReply start(int start_socket, int exit_pipe);
  // Shows the folders of an allocation in the cage of a session server.
  control::SpawnReply open(const control::SpawnRequest& request);
  bool separates_users() const { return users_.available(); }
  // Collects the exit status of ended processes.
  void reap();

 private:
  struct Session {
    CagedProcess server, compiler;
    CageUser user;
    int exit_pipe = -1;
  };
  CageSettings cage(const CageUser& user, const std::vector<int>& groups) const;
  CagedProcess start_compiler(int socket, CageSettings cage) const;
  CagedProcess start_server(int start_socket, int compiler_socket, CageSettings cage) const;
  void end(const Session& session);
  void has_ended(pid_t pid, int status);
  const Settings settings_;
  const bool can_cage_;
  const ControlGroups groups_;
  uint64_t started_ = 0;
  std::string compiler_program_;  // empty: the GPUs are NVIDIA's
  std::string kernels_;           // folder of the kernel caches
  std::string devices_;           // folder of the software GPUs' files
  CageUsers users_;
  std::map<pid_t, Session> sessions_;  // by pid of the server
};

}  // namespace busbar::spawner

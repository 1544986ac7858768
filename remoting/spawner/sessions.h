// The session servers of the spawner, each with its compiler if the GPUs are software.
//
// Thread safety: for one thread.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "control/spawn_messages.h"
#include "spawner/cage.h"
#include "spawner/cage_users.h"
#include "spawner/control_groups.h"
#include "spawner/nvidia_gpus.h"
#include "spawner/session_output.h"

namespace busbar::spawner {

struct Settings {
  std::string runtime, session_program, driver;
  std::string cache;  // persistent folder of module images; empty: they are kept in `runtime`

  const std::string& image_base() const { return cache.empty() ? runtime : cache; }
  std::string images() const { return image_base() + "/images"; }
};

class Sessions {
 public:
  // `can_cage`: the process may make namespaces.
  Sessions(const Settings& settings, bool can_cage);

  // Starts a session server that sees these GPUs of NVIDIA only. Takes over the pipe, which gets
  // its exit status as an int.
  control::SpawnReply start(int start_socket, int exit_pipe, const std::vector<GpuUuid>& gpus);
  // Shows the folders of an allocation in the cage of a session server.
  control::SpawnReply open(const control::SpawnRequest& request);
  // Returns the limits that are in force for all sessions together, for the log.
  std::string common_limits() const;
  bool separates_users() const { return users_.available(); }
  // Takes the exit status of a session server or compiler.
  void has_ended(pid_t pid, int status);
  void remove_empty_groups() const { groups_.remove_empty(); }
  SessionOutput& output() { return output_; }
  bool any() const { return !sessions_.empty(); }
  // Folders with a folder of cached files for each tenant.
  std::vector<std::string> caches() const { return {settings_.images(), kernels_}; }

 private:
  struct Session {
    CagedProcess server, compiler;
    CageUser user;
    int exit_pipe = -1;
    std::string use_file;  // the page of its use of the software GPUs
  };
  CageSettings cage(const Session& session, int log, const std::vector<int>& groups) const;
  CagedProcess start_compiler(int socket, CageSettings cage) const;
  CagedProcess start_server(int start_socket, int compiler_socket, int use_fd, CageSettings cage,
                            const std::vector<GpuUuid>& gpus) const;
  void end(Session& session);
  const Settings settings_;
  const bool can_cage_;
  const ControlGroups groups_;
  SessionOutput output_;
  uint64_t started_ = 0;
  std::string compiler_program_;  // empty: the GPUs are NVIDIA's
  std::string kernels_;           // folder of the kernel caches
  std::string devices_;           // folder of the software GPUs' files
  CageUsers users_;
  std::map<pid_t, Session> sessions_;  // by pid of the server
};

}  // namespace busbar::spawner

// Users of cages: while a cage runs, no other process has its uid or gid. They come from a range
// that nothing else on the machine uses.
//
// Thread safety: for one thread.
#pragma once
#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace busbar::spawner {

// A user namespace in which `uid` has the number of this process's user. A folder that is shown
// through it belongs to `uid`; on the disk it belongs to this process's user.
struct CageUser {
  uid_t uid = 0;
  int name_space = -1;
};

class CageUsers {
 public:
  // `range` is "FIRST-LAST". The users are available if this process may make such namespaces and
  // show `folders` through them.
  CageUsers(const std::string& range, const std::vector<std::string>& folders);

  bool available() const { return available_; }
  // Returns a user that no process has. The namespace, which the caller closes, is -1 if there is
  // none.
  CageUser take();

 private:
  std::set<uid_t> users_of_processes() const;
  uid_t first_ = 1, last_ = 0, next_ = 1;
  bool available_ = false;
};

// Becomes the user of a cage. Requires the rights of the spawner; they end with this call outside
// of the namespace.
bool become_user(int user_namespace);

}  // namespace busbar::spawner

// The root folder of the spawner's mount namespace.
//
// Thread safety: for processes with one thread.
#pragma once

namespace busbar::spawner {

// Makes the root folder the root of this mount namespace, which must be the process's own. In a
// plain chroot it is an ordinary folder of a file system; then no cage can be built, and the kernel
// refuses user namespaces. Needs CAP_SYS_ADMIN and CAP_SYS_CHROOT in such a chroot, nothing
// elsewhere. Returns false, with errno, if the system refuses it.
bool own_root_folder();

}  // namespace busbar::spawner

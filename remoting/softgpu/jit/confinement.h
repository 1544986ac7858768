// Limits of the processes of the compiler. The cage (spawner) decides which files they see.
//
//   softgpu-compiler   starts the two others and writes the kernel cache. It reads no PTX.
//   translator         reads PTX. It has its socket and memory, and no files or programs.
//   C compiler         reads the C that the translator wrote. It writes one folder and starts the
//                      programs of the C compiler only, where the kernel has Landlock.
//
// No process has system calls for networks.
//
// Thread safety: for processes with one thread. None of the functions can be undone.
#pragma once
#include <string>

namespace softgpu::jit {

// False if the kernel does not permit it.
bool confine_compiler();
bool confine_translator();
// `folder` is for its output and its temporary files.
bool confine_c_compiler(const std::string& program, const std::string& folder);

}  // namespace softgpu::jit

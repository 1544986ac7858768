// CUDA entry points: code images in files. They only call the functions that take bytes, so the
// software GPU's driver contains this file too.
#include <cuda.h>

#include <cstdio>
#include <string>

#include "export.h"

// Read a file to `out`.
static CUresult read_file(const char* path, std::string& out) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  FILE* f = std::fopen(path, "rb");
  if (!f) return CUDA_ERROR_FILE_NOT_FOUND;
  char buffer[65536];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, f)) > 0) out.append(buffer, n);
  std::fclose(f);
  return CUDA_SUCCESS;
}

API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  std::string bytes;
  if (CUresult r = read_file(path, bytes)) return r;
  return cuModuleLoadData(out, bytes.c_str());
}

API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* options,
                                   void** values, unsigned n, CUlibraryOption* library_options,
                                   void** library_values, unsigned m) {
  std::string bytes;
  if (CUresult r = read_file(path, bytes)) return r;
  return cuLibraryLoadData(out, bytes.c_str(), options, values, n, library_options, library_values,
                           m);
}

API CUresult cuLinkAddFile(CUlinkState h, CUjitInputType type, const char* path, unsigned n,
                           CUjit_option* options, void** values) {
  std::string bytes;
  if (CUresult r = read_file(path, bytes)) return r;
  return cuLinkAddData(h, type, bytes.data(), bytes.size(), path, n, options, values);
}

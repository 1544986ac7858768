#include "client/host_mirror.h"

#include "client/managed.h"
#include "client/mapped.h"

namespace busbar::client {

CUresult flush_host_mirrors(Stream& s) {
  if (CUresult r = flush_managed(s)) return r;
  return flush_mapped(s);
}

}  // namespace busbar::client

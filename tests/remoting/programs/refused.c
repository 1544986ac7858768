/* Calls what is refused, twice, and goes on: refused [SECONDS to stay]. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <unistd.h>
#include "check.h"

int main(int n, char** v) {
  begin();
  for (int i = 0; i < 2; ++i) SAY(cuParamSetTexRef(bump, 0, 0));
  SAY(cuCtxSynchronize());
  fflush(stdout);
  sleep(n > 1 ? (unsigned)atoi(v[1]) : 0);
  return 0;
}

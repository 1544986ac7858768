/* Call an unsupported function twice and continue: refused [SECONDS to sleep before the exit]. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <unistd.h>
#include "check.h"

int main(int n, char** v) {
  create_context();
  for (int i = 0; i < 2; ++i) SHOW(cuParamSetTexRef(bump, 0, 0));
  SHOW(cuCtxSynchronize());
  fflush(stdout);
  sleep(n > 1 ? (unsigned)atoi(v[1]) : 0);
  return 0;
}

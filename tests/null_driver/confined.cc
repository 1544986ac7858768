// The null driver confines itself as the software GPU does, but hands out dirty memory as NVIDIA's
// driver may. Without this file session servers take it for NVIDIA's driver.
extern "C" int softgpu_fresh_memory_is_zero(void) {
  return 0;
}

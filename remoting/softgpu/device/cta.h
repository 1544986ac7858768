/* What the driver and a compiled kernel share. C, because the kernel is C; part of the cache key.
 */
#ifndef SOFTGPU_CTA_H
#define SOFTGPU_CTA_H
#include <stdint.h>

enum {
  FAULT_ADDRESS = 1,
  FAULT_MISALIGNED = 2,
  FAULT_TRAP = 3,
  FAULT_STACK = 4,
  FAULT_ASSERT = 5,
  FAULT_SHARED = 6
};

/* All device memory, shared memory and stacks lie in this window, so one compare tells them from
 * host memory. */
#ifdef BUSBAR_SMALL_WINDOW /* ThreadSanitizer keeps its own memory where the window lies otherwise \
                            */
#define SOFTGPU_WINDOW_BASE 0x1000000000ULL
#define SOFTGPU_WINDOW_BYTES 0x6000000000ULL
#else
#define SOFTGPU_WINDOW_BASE 0x200000000000ULL
#define SOFTGPU_WINDOW_BYTES 0x100000000000ULL
#endif

/* What softgpu_kernel returns: only a cooperative launch has blocks that stop before their end. */
enum { CTA_DONE = 0, CTA_YIELDED = 1, CTA_AT_GRID_BARRIER = 2 };

struct Cta;
typedef struct Host {
  void (*fault)(struct Cta* c, int kind, uint64_t address) __attribute__((noreturn));
  uint32_t (*print)(struct Cta* c, uint64_t format, uint64_t arguments);
  uint64_t (*allocate)(struct Cta* c, uint64_t bytes); /* malloc and free of kernels */
  void (*release)(struct Cta* c, uint64_t address);
  void (*assertion)(struct Cta* c, uint64_t message, uint64_t file, uint32_t line,
                    uint64_t function, uint32_t x, uint32_t y, uint32_t z)
      __attribute__((noreturn));
  void (*texture)(struct Cta* c, uint64_t handle, int dimensions, const double* at, uint32_t* out);
  uint8_t* (*outside)(struct Cta* c, uint64_t address,
                      uint32_t bytes); /* registered host memory, or a fault */
  void (*condition)(struct Cta* c, uint64_t handle, uint32_t value); /* of a graph */
} Host;

typedef struct Thread {
  uint32_t x, y, z, lane, warp, depth;
  uint8_t *local, *local_end;
} Thread;

typedef struct Cta {
  const Host* host;
  const uint8_t* params;
  const uint64_t* globals;
  uint64_t shared_base, local_base, local_span;
  uint32_t shared_bytes, dynamic_shared_bytes;
  uint32_t ntid[3], nctaid[3], ctaid[3];
  uint32_t threads, worker, workers, grid_id;
  uint64_t local_bytes; /* stack of one thread */
  void* frames;         /* softgpu_frame_bytes() for this many threads */
  uint32_t arrived[16]; /* bar.arrive, in threads */
  volatile int* stop;   /* set when the launch is to end early */
  void* owner;          /* the driver's own */
  uint64_t workspace; /* of a cooperative launch: its size and one barrier word, in device memory */
  uint32_t cooperative, started, grid_waiting, grid_release;
} Cta;
#endif

/* Interface between the driver and compiled kernels. It is C, as the kernels are, and part of their
 * cache key. */
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

/* All device memory, shared memory and stacks lie in this window, so one comparison distinguishes
 * them from host memory. ThreadSanitizer has its own memory where the large window lies. Tests of
 * the checks define a small one. */
#ifndef SOFTGPU_WINDOW_BASE
#ifdef BUSBAR_SMALL_WINDOW
#define SOFTGPU_WINDOW_BASE 0x1000000000ULL
#define SOFTGPU_WINDOW_BYTES 0x6000000000ULL
#else
#define SOFTGPU_WINDOW_BASE 0x200000000000ULL
#define SOFTGPU_WINDOW_BYTES 0x100000000000ULL
#endif
#endif

/* Results of softgpu_kernel. Only blocks of cooperative launches stop before their end. */
enum { CTA_DONE = 0, CTA_YIELDED = 1, CTA_AT_GRID_BARRIER = 2 };

/* How a read of a texture determines the level of a mipmapped array. */
enum { TEXTURE_BASE = 0, TEXTURE_LEVEL = 1, TEXTURE_GRADIENT = 2 };

/* A read of a texture. */
typedef struct TextureRead {
  double where[3];            /* coordinates; of a cube: a direction */
  double across[3], along[3]; /* derivatives of the coordinates, for TEXTURE_GRADIENT */
  double level;               /* for TEXTURE_LEVEL */
  int32_t offset[3];          /* in texels of the level */
  uint32_t mode, layer;
  uint32_t component;    /* for gather */
  uint8_t dimensions;    /* of a layer or face */
  uint8_t layered, cube; /* not 0: the array has layers, or faces */
  uint8_t gather;        /* not 0: return one component of four texels */
} TextureRead;

enum {
  SURFACE_LOAD = 0,
  SURFACE_STORE = 1,
  SURFACE_ADD = 2,
  SURFACE_MIN = 3,
  SURFACE_MAX = 4,
  SURFACE_AND = 5,
  SURFACE_OR = 6
};
/* What an access beyond the bounds of a surface does: fault, use the nearest element, nothing. */
enum { SURFACE_TRAP = 0, SURFACE_CLAMP = 1, SURFACE_ZERO = 2 };

/* An access to a surface. */
typedef struct SurfaceAccess {
  int32_t where[3]; /* byte of the row, row, slice */
  uint32_t layer;
  uint8_t operation, beyond;
  uint8_t dimensions, layered;
  uint8_t bytes, elements; /* of one element; their number */
  uint8_t is_signed;
  uint8_t formatted; /* not 0: where[0] is a texel or element, and the format of the array counts */
} SurfaceAccess;

enum {
  QUERY_WIDTH = 0,
  QUERY_HEIGHT = 1,
  QUERY_DEPTH = 2,
  QUERY_CHANNEL_TYPE = 3,
  QUERY_CHANNEL_ORDER = 4,
  QUERY_NORMALIZED = 5,
  QUERY_LAYERS = 6,
  QUERY_LEVELS = 7,
  QUERY_SAMPLES = 8,
  QUERY_FILTER = 9,
  QUERY_ADDRESS_0 = 10,
  QUERY_ADDRESS_1 = 11,
  QUERY_ADDRESS_2 = 12,
  QUERY_LINEAR_LAYOUT = 13
};
/* A query of an attribute of a texture or surface. */
typedef struct ObjectQuery {
  int32_t level; /* of a mipmapped array */
  uint8_t attribute, of_surface;
} ObjectQuery;

/* What a copy of a box of a tensor does with its elements. */
enum {
  TENSOR_LOAD = 0, /* to shared memory; the others: from shared memory */
  TENSOR_STORE = 1,
  TENSOR_ADD = 2,
  TENSOR_MIN = 3,
  TENSOR_MAX = 4,
  TENSOR_INC = 5,
  TENSOR_DEC = 6,
  TENSOR_AND = 7,
  TENSOR_OR = 8,
  TENSOR_XOR = 9
};
typedef struct TensorCopy {
  int32_t where[5]; /* first element of the box; gather4: a column and four rows */
  uint32_t shared;  /* address in shared memory */
  uint8_t operation, dimensions;
  uint8_t gather4;
} TensorCopy;

struct Cta;
/* Functions of the driver that kernels call. */
typedef struct Host {
  void (*fault)(struct Cta* c, int kind, uint64_t address) __attribute__((noreturn));
  uint32_t (*print)(struct Cta* c, uint64_t format, uint64_t arguments);
  uint64_t (*allocate)(struct Cta* c, uint64_t bytes); /* malloc of kernels; 0: no room */
  void (*release)(struct Cta* c, uint64_t address);
  void (*assertion)(struct Cta* c, uint64_t message, uint64_t file, uint32_t line,
                    uint64_t function, uint32_t x, uint32_t y, uint32_t z)
      __attribute__((noreturn));
  void (*texture)(struct Cta* c, uint64_t handle, const TextureRead* read, uint32_t* out);
  /* Loads to or stores from up to four elements. */
  void (*surface)(struct Cta* c, uint64_t handle, const SurfaceAccess* access, uint64_t* values);
  uint32_t (*query)(struct Cta* c, uint64_t handle, const ObjectQuery* query);
  /* Copies a box of the tensor of a map. Returns its bytes in shared memory. */
  uint32_t (*tensor)(struct Cta* c, uint64_t map, const TensorCopy* copy);
  uint8_t* (*host_pointer)(struct Cta* c, uint64_t address,
                           uint32_t bytes); /* registered host memory; faults otherwise */
  void (*condition)(struct Cta* c, uint64_t handle, uint32_t value); /* sets a graph condition */
} Host;

/* The running thread, for called functions. */
typedef struct Thread {
  uint32_t x, y, z, lane, warp;
  uint32_t depth;             /* of calls */
  uint8_t *local, *local_end; /* stack */
} Thread;

/* A thread block (cooperative thread array). */
typedef struct Cta {
  const Host* host;
  const uint8_t* params;
  const uint64_t* globals;
  uint64_t shared_base, local_base; /* window addresses */
  uint64_t local_span;              /* bytes of the stacks of all threads */
  uint32_t shared_bytes, dynamic_shared_bytes;
  uint32_t ntid[3], nctaid[3], ctaid[3];
  uint32_t threads, worker, workers, grid_id;
  uint64_t local_bytes; /* stack of one thread, in bytes */
  void* frames;         /* memory of softgpu_frame_bytes(threads) bytes */
  uint32_t arrived[16]; /* threads that executed bar.arrive, by barrier */
  volatile int* stop;   /* not 0: end the launch early */
  void* owner;          /* the GridRunner */
  uint64_t workspace; /* of a cooperative launch: its size and one barrier word, in device memory */
  uint32_t cooperative, started, grid_waiting, grid_release;
} Cta;
#endif

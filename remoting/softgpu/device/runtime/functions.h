/* Parameters, stacks and calls of generated functions. */

#define BYTES_OF(variable) ((Bytes) & (variable))

/* Copy the parameters of the kernel: no store of the kernel can change the copy, so that the C
 * compiler keeps them in registers. */
#define DECLARE_PARAMETERS(n)                \
  u8 params[n] __attribute__((aligned(16))); \
  __builtin_memcpy(params, c->params, n)

/* The stack of thread number `n` of the block. */
#define DECLARE_STACK(n)                                         \
  Bytes lp = (Bytes)(c->local_base + (u64)(n) * c->local_bytes); \
  (void)lp
#define DECLARE_THREAD(x, y, z, lane, warp)                       \
  Thread own = {x, y, z, lane, warp, 0, lp, lp + c->local_bytes}; \
  Thread* t = &own;                                               \
  (void)t

/* Heads of functions whose bodies the translator writes. */
#define KERNEL_FUNCTION __attribute__((visibility("default"))) int softgpu_kernel(Cta* c)
#define FUNCTION(number, ...) \
  static void f_##number(Cta* c, Thread* t, Bytes lp __VA_OPT__(, ) __VA_ARGS__)
#define ROW_FUNCTION \
  static int run_row(Cta* c, const Constants k, Bytes params, u32 first, u32 y, u32 z, u32 length)
#define MEMBERS_FUNCTION static u32 members(struct Warp* w, int b, u32 l)
#define WARP_FUNCTION static void run_warp(Cta* c, struct Warp* w)

/* bar.arrive */
INLINE void barrier_arrive(Cta* c, u32 id) {
  c->arrived[id & 15]++;
}

/* Functions that the driver provides to every program. Their arguments are call parameters of at
 * least 8 bytes. */
#define ARGUMENT(T, a) (*(T*)(a))

INLINE void call_vprintf(Cta* c, Bytes result, Bytes format, Bytes arguments) {
  ARGUMENT(u32, result) = c->host->print(c, ARGUMENT(u64, format), ARGUMENT(u64, arguments));
}

INLINE void call_malloc(Cta* c, Bytes result, Bytes bytes) {
  ARGUMENT(u64, result) = c->host->allocate(c, ARGUMENT(u64, bytes));
}

INLINE void call_free(Cta* c, Bytes address) {
  c->host->release(c, ARGUMENT(u64, address));
}

INLINE void call_set_condition(Cta* c, Bytes handle, Bytes value) {
  c->host->condition(c, ARGUMENT(u64, handle), ARGUMENT(u32, value));
}

INLINE void call_grid_handle(Cta* c, Bytes result, Bytes scope) {
  (void)c;
  ARGUMENT(u64, result) = ARGUMENT(u32, scope);
}

INLINE void call_assertion(Cta* c, Bytes message, Bytes file, Bytes line, Bytes function, u32 x,
                           u32 y, u32 z) {
  c->host->assertion(c, ARGUMENT(u64, message), ARGUMENT(u64, file), ARGUMENT(u32, line),
                     ARGUMENT(u64, function), x, y, z);
}

/* The result of a grid barrier. */
INLINE void call_grid_barrier(Bytes result) {
  ARGUMENT(u32, result) = 0;
}

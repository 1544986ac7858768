/* Checked addresses. Every access of a kernel uses an Access, which only the functions of this file
 * make, each after a check. The macros and functions that take an Access are the only ones that
 * read or write through it. */
typedef struct Access {
  u8* at;
} Access;
typedef u8* Bytes; /* of a call parameter or the stack: passed on, never used to access memory */

#define LOAD(T, a, offset) (*(T*)((a).at + (offset)))
#define STORE(T, a, offset, v) (*(T*)((a).at + (offset)) = (v))
#define LOAD_ORDERED(T, a, offset) __atomic_load_n((T*)((a).at + (offset)), __ATOMIC_ACQUIRE)
#define STORE_ORDERED(T, a, offset, v) \
  __atomic_store_n((T*)((a).at + (offset)), v, __ATOMIC_RELEASE)

INLINE Access access_of(u8* at) {
  Access a = {at};
  return a;
}

/* ---- single: one access of n bytes ---- */

/* Bounds and alignment are one comparison: rotated right by log2(n), a misaligned address exceeds
 * any limit. n is a constant power of two up to 32. */
#define LOG2(n) ((n) == 1 ? 0 : (n) == 2 ? 1 : (n) == 4 ? 2 : (n) == 8 ? 3 : (n) == 16 ? 4 : 5)

/* Return registered host memory, or fault. */
NOINLINE Access outside_single(Cta* c, u64 a, u32 n) {
  if (a & (n - 1)) c->host->fault(c, FAULT_MISALIGNED, a);
  return access_of(c->host->host_pointer(c, a, n));
}

/* A global or generic address. */
INLINE Access single_global(Cta* c, u64 a, u32 n) {
  u64 x = a - SOFTGPU_WINDOW_BASE, r = n == 1 ? x : x >> LOG2(n) | x << (64 - LOG2(n));
  return __builtin_expect(r >= SOFTGPU_WINDOW_BYTES >> LOG2(n), 0) ? outside_single(c, a, n)
                                                                   : access_of((u8*)a);
}

/* An offset in shared memory. */
INLINE Access single_shared(Cta* c, const Constants* k, u32 a, u32 n) {
  u32 r = n == 1 ? a : a >> LOG2(n) | a << (32 - LOG2(n));
  if (__builtin_expect(r >= k->shared_bytes >> LOG2(n), 0))
    c->host->fault(c, a & (n - 1) ? FAULT_MISALIGNED : FAULT_SHARED, a);
  return access_of((u8*)(k->shared_base + a));
}

/* A constant offset outside of its variable: the access faults when it is reached. */
NOINLINE Access single_outside(Cta* c, u64 a) {
  c->host->fault(c, FAULT_ADDRESS, a);
  return access_of(0);
}

/* n bytes at a constant offset of a parameter that ends at `end`. The translator has compared them:
 * the condition is a constant, and nothing is left of it. */
INLINE Access single_parameter(Bytes parameter, u32 offset, u32 n, u64 end) {
  if ((u64)offset + n > end) __builtin_trap();
  return access_of(parameter + offset);
}

/* ---- group: several accesses of n bytes each within `span` bytes. All of them happen, so the
 * kernel faults exactly if one of them is wrong. ---- */

INLINE Access group_shared(Cta* c, const Constants* k, u32 first, u32 span, u32 n) {
  if (__builtin_expect((u64)first + span > k->shared_bytes || (first & (n - 1)), 0))
    c->host->fault(c, first & (n - 1) ? FAULT_MISALIGNED : FAULT_SHARED, first);
  return access_of((u8*)(k->shared_base + first));
}

NOINLINE Access outside_group(Cta* c, u64 first, u32 span, u32 n) {
  if (first & (n - 1)) c->host->fault(c, FAULT_MISALIGNED, first);
  return access_of(c->host->host_pointer(c, first, span));
}

INLINE Access group_global(Cta* c, u64 first, u32 span, u32 n) {
#ifdef SOFTGPU_PLANTED_UNCHECKED /* a test checks the first access only; the fuzzer detects it */
  span = n;
#endif
  return __builtin_expect(
             first - SOFTGPU_WINDOW_BASE > SOFTGPU_WINDOW_BYTES - span || (first & (n - 1)), 0)
             ? outside_group(c, first, span, n)
             : access_of((u8*)first);
}

/* ---- row: one access of `bytes` bytes by each of `length` threads ---- */

/* Set the access of the first thread if the addresses of the first, second and last thread lie on a
 * line, are aligned and lie in device memory. Return 0 otherwise. */
INLINE int is_row(Access* first, u64 a, u64 second, u64 last, u32 bytes, u32 length) {
  *first = access_of((u8*)a);
  return second - a == bytes && last - a == (u64)bytes * (length - 1) && !(a & (bytes - 1)) &&
         a - SOFTGPU_WINDOW_BASE < SOFTGPU_WINDOW_BYTES - (u64)bytes * length;
}

/* A part of a group or row. */
INLINE Access part(Access a, u64 offset) {
  return access_of(a.at + offset);
}

/* cp.async: the copy is done at once. Bytes beyond `available` are zeroed. */
INLINE void copy_async(Access to, Access from, u32 bytes, u32 available) {
  if (available > bytes) available = bytes;
  __builtin_memcpy(to.at, from.at, available);
  __builtin_memset(to.at + available, 0, bytes - available);
}

INLINE void clear_async(Access to, u32 bytes) {
  __builtin_memset(to.at, 0, bytes);
}

/* Matrix fragments of a warp (PTX ISA, "Warp-level matrix instructions"): each lane holds some
 * elements of A, B, C and D. */
enum { E_F16, E_BF16, E_TF32, E_E4M3, E_E5M2, E_E3M2, E_E2M3, E_E2M1, E_PACKED_E2M1, E_S8, E_U8 };
#define MAX_K 64

static f32 element(u32 reg, int i, int kind) {
  switch (kind) {
    case E_F16: return (f32)as_f16((u16)(reg >> 16 * i));
    case E_BF16: return as_bf16((u16)(reg >> 16 * i));
    case E_TF32: return as_f32(reg & 0xffffe000u);
    case E_E4M3: return from_e4m3(reg >> 8 * i & 255);
    case E_E3M2: return from_finite(reg >> 8 * i & 63, 3, 2);
    case E_E2M3: return from_finite(reg >> 8 * i & 63, 2, 3);
    case E_E2M1: return from_finite(reg >> (8 * i + 2) & 15, 2, 1);
    case E_PACKED_E2M1: return from_finite(reg >> 4 * i & 15, 2, 1);
    default: return from_e5m2(reg >> 8 * i & 255);
  }
}

/* Number of elements in one register: 2 halves, 4 bytes, 1 word or 8 packed elements. */
static int elements_of(int kind) {
  return kind == E_F16 || kind == E_BF16 ? 2 : kind == E_TF32 ? 1 : kind == E_PACKED_E2M1 ? 8 : 4;
}

/* Row of A (or column of the transposed B) and index along k of element e of register r. Registers
   alternate between the upper and the lower eight rows of A, then go on along k. */
static void place_a(u32 lane, int r, int e, int per, int rows, int* row, int* k) {
  *row = (int)(lane >> 2) + (rows == 16 ? (r & 1) * 8 : 0);
  *k = (int)(lane & 3) * per + e + (rows == 16 ? r >> 1 : r) * 4 * per;
}

typedef struct Mma {
  int m, k, kind_a, kind_b, half, saturate;
} Mma;

/* Distribute the fragments of all lanes to rows of A and columns of B. */
static void matrices_of(const Mma* s, u32 (*A)[4], u32 (*B)[4], f32 (*a)[MAX_K], f32 (*b)[MAX_K]) {
  int per = elements_of(s->kind_a), ra = s->m * s->k / 32 / per, rb = 8 * s->k / 32 / per;
  for (u32 l = 0; l < 32; ++l) {
    int row, k;
    for (int r = 0; r < ra; ++r)
      for (int e = 0; e < per; ++e) {
        place_a(l, r, e, per, s->m, &row, &k);
        a[row][k] = element(A[l][r], e, s->kind_a);
      }
    for (int r = 0; r < rb; ++r)
      for (int e = 0; e < per; ++e) {
        place_a(l, r, e, per, 8, &row, &k);
        b[row][k] = element(B[l][r], e, s->kind_b);
      }
  }
}

static void mma_float(const Mma* s, u32 (*A)[4], u32 (*B)[4], u32 (*C)[4], u32 (*D)[4]) {
  f32 a[16][MAX_K], b[8][MAX_K];
  matrices_of(s, A, B, a, b);
  for (u32 l = 0; l < 32; ++l)
    for (int i = 0; i < s->m / 4; ++i) {
      int row = (int)(l >> 2) + (i >> 1) * 8, column = (int)(l & 3) * 2 + (i & 1);
      f32 sum = s->half ? (f32)as_f16((u16)(C[l][i >> 1] >> 16 * (i & 1))) : as_f32(C[l][i]);
      for (int k = 0; k < s->k; ++k) sum += a[row][k] * b[column][k];
      if (!s->half)
        D[l][i] = bits_f32(sum);
      else if (i & 1)
        D[l][i >> 1] = (D[l][i >> 1] & 0xffff) | (u32)bits_f16((f16)sum) << 16;
      else
        D[l][i >> 1] = bits_f16((f16)sum);
    }
}

/* Scale factors: `count` for each row of A and column of B, each for a part of k. They are bytes of
 * the registers of one pair of lanes in each quad (A), and of one lane (B). */
typedef struct Scales {
  u32 count, byte_a, pair_a, byte_b, lane_b;
  int ue4m3; /* not 0: their type is ue4m3, otherwise ue8m0 */
} Scales;

static f64 scale_of(const Scales* f, u32 reg, u32 byte) {
  u32 code = reg >> 8 * (byte & 3) & 255;
  return f->ue4m3 ? from_e4m3(code & 127) : from_e8m0(code);
}

/* Sums are exact or nearly so in doubles, and rounded once. */
static void mma_scaled(const Mma* s, const Scales* f, u32 (*A)[4], u32 (*B)[4], u32 (*C)[4],
                       const u32* SA, const u32* SB, u32 (*D)[4]) {
  f32 a[16][MAX_K], b[8][MAX_K];
  matrices_of(s, A, B, a, b);
  int part = s->k / (int)f->count;
  for (u32 l = 0; l < 32; ++l)
    for (u32 i = 0; i < 4; ++i) {
      u32 row = (l >> 2) + (i >> 1) * 8, column = (l & 3) * 2 + (i & 1);
      u32 from_a = 4 * (row & 7) + 2 * (f->pair_a & 1) + (row >> 3);
      u32 from_b = 4 * column + (f->lane_b & 3);
      f64 sum = as_f32(C[l][i]);
      for (u32 n = 0; n < f->count; ++n) {
        f64 scale = scale_of(f, SA[from_a], f->byte_a + n) * scale_of(f, SB[from_b], f->byte_b + n);
        for (int k = (int)n * part; k < (int)(n + 1) * part; ++k)
          sum += scale * ((f64)a[row][k] * b[column][k]);
      }
      D[l][i] = bits_f32((f32)sum);
    }
}

static s32 byte_of(u32 reg, int i, int kind) {
  u32 v = reg >> 8 * i & 255;
  return kind == E_S8 ? (s32)(s8)v : (s32)v;
}

static void mma_int(const Mma* s, u32 (*A)[4], u32 (*B)[4], u32 (*C)[4], u32 (*D)[4]) {
  s32 a[16][32], b[8][32];
  int ra = s->m * s->k / 128, rb = 8 * s->k / 128;
  for (u32 l = 0; l < 32; ++l) {
    int row, k;
    for (int r = 0; r < ra; ++r)
      for (int e = 0; e < 4; ++e) {
        place_a(l, r, e, 4, s->m, &row, &k);
        a[row][k] = byte_of(A[l][r], e, s->kind_a);
      }
    for (int r = 0; r < rb; ++r)
      for (int e = 0; e < 4; ++e) {
        place_a(l, r, e, 4, 8, &row, &k);
        b[row][k] = byte_of(B[l][r], e, s->kind_b);
      }
  }
  for (u32 l = 0; l < 32; ++l)
    for (int i = 0; i < s->m / 4; ++i) {
      int row = (int)(l >> 2) + (i >> 1) * 8, column = (int)(l & 3) * 2 + (i & 1);
      s64 sum = (s32)C[l][i];
      for (int k = 0; k < s->k; ++k) sum += (s64)a[row][k] * b[column][k];
      D[l][i] = (u32)(s->saturate ? (s32)(sum > 2147483647ll    ? 2147483647ll
                                          : sum < -2147483648ll ? -2147483648ll
                                                                : sum)
                                  : (s32)(u32)sum);
    }
}

static void mma_m8n8k4_f64(const u64* A, const u64* B, u64 (*C)[2], u64 (*D)[2]) {
  for (u32 l = 0; l < 32; ++l)
    for (int i = 0; i < 2; ++i) {
      u32 row = l >> 2, column = (l & 3) * 2 + (u32)i;
      f64 sum = as_f64(C[l][i]);
      for (u32 k = 0; k < 4; ++k)
        sum = __builtin_fma(as_f64(A[row * 4 + k]), as_f64(B[column * 4 + k]), sum);
      D[l][i] = bits_f64(sum);
    }
}

/* ldmatrix and stmatrix: lane 8j+i has the access of row i of matrix j, 16 bytes; each lane holds
 * two halves of every matrix. */
static void load_matrices(const Access* at, int n, int transposed, u32 (*D)[4]) {
  for (int j = 0; j < n; ++j) {
    u16 m[8][8];
    for (u32 i = 0; i < 8; ++i) __builtin_memcpy(m[i], at[8 * j + (int)i].at, 16);
    for (u32 l = 0; l < 32; ++l) {
      u32 r = l >> 2, k = (l & 3) * 2;
      D[l][j] = transposed ? (u32)m[k][r] | (u32)m[k + 1][r] << 16
                           : (u32)m[r][k] | (u32)m[r][k + 1] << 16;
    }
  }
}

static void store_matrices(const Access* at, int n, int transposed, u32 (*S)[4]) {
  for (int j = 0; j < n; ++j) {
    u16 m[8][8];
    for (u32 l = 0; l < 32; ++l) {
      u32 r = l >> 2, k = (l & 3) * 2;
      u16 low = (u16)S[l][j], high = (u16)(S[l][j] >> 16);
      if (transposed) {
        m[k][r] = low;
        m[k + 1][r] = high;
      } else {
        m[r][k] = low;
        m[r][k + 1] = high;
      }
    }
    for (u32 i = 0; i < 8; ++i) __builtin_memcpy(at[8 * j + (int)i].at, m[i], 16);
  }
}

/* wmma: element e of lane l is number l * per + e of the matrix, row by row. */
enum { W_F16, W_BF16, W_F32, W_S8, W_U8, W_S32, W_F64 };
typedef struct Fragments {
  u8* lanes;
  u64 stride;
  int kind;
  u32 per;
} Fragments;
INLINE Fragments wmma_matrix(void* lanes, u64 stride, int kind, int per) {
  Fragments f = {(u8*)lanes, stride, kind, (u32)per};
  return f;
}
/* Copy element e between memory and the registers of a lane. */
INLINE void wmma_load(Access from, void* lane, u32 e, u32 bytes) {
  __builtin_memcpy((u8*)lane + e * bytes, from.at, bytes);
}
INLINE void wmma_store(Access to, const void* lane, u32 e, u32 bytes) {
  __builtin_memcpy(to.at, (const u8*)lane + e * bytes, bytes);
}

static u32 wmma_bytes(int kind) {
  return kind == W_F16 || kind == W_BF16 ? 2
         : kind == W_S8 || kind == W_U8  ? 1
         : kind == W_F64                 ? 8
                                         : 4;
}
static f64 wmma_read(const Fragments* f, u32 at) {
  const u8* p = f->lanes + (at / f->per) * f->stride + (at % f->per) * wmma_bytes(f->kind);
  u16 h;
  u32 w;
  u64 d;
  switch (f->kind) {
    case W_F16: __builtin_memcpy(&h, p, 2); return (f64)as_f16(h);
    case W_BF16: __builtin_memcpy(&h, p, 2); return as_bf16(h);
    case W_F32: __builtin_memcpy(&w, p, 4); return as_f32(w);
    case W_S8: return (s8)*p;
    case W_U8: return *p;
    case W_S32: __builtin_memcpy(&w, p, 4); return (s32)w;
    default: __builtin_memcpy(&d, p, 8); return as_f64(d);
  }
}

/* Write an element to every lane that holds it. */
static void wmma_write(const Fragments* f, u32 at, u32 elements, f64 v) {
  for (; at < 32 * f->per; at += elements) {
    u8* p = f->lanes + (at / f->per) * f->stride + (at % f->per) * wmma_bytes(f->kind);
    u16 h = bits_f16((f16)v);
    u32 w = bits_f32((f32)v);
    u64 d = bits_f64(v);
    if (f->kind == W_F16)
      __builtin_memcpy(p, &h, 2);
    else if (f->kind == W_S32) {
      s32 i = (s32)(s64)v;
      __builtin_memcpy(p, &i, 4);
    } else if (f->kind == W_F32)
      __builtin_memcpy(p, &w, 4);
    else
      __builtin_memcpy(p, &d, 8);
  }
}

/* Sums of halves and integers are exact in doubles; those of floats are rounded once, which the PTX
 * manual allows. */
static void wmma_multiply(u32 m, u32 n, u32 k, Fragments a, Fragments b, Fragments c, Fragments d,
                          int saturate) {
  static __thread f64 sums[32 * 32];
  for (u32 i = 0; i < m; ++i)
    for (u32 j = 0; j < n; ++j) {
      f64 sum = wmma_read(&c, i * n + j);
      for (u32 x = 0; x < k; ++x)
        sum = __builtin_fma(wmma_read(&a, i * k + x), wmma_read(&b, x * n + j), sum);
      if (d.kind == W_S32 && saturate)
        sum = sum > 2147483647.0 ? 2147483647.0 : sum < -2147483648.0 ? -2147483648.0 : sum;
      sums[i * n + j] = sum;
    }
  for (u32 at = 0; at < m * n; ++at) wmma_write(&d, at, m * n, sums[at]);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * cell.h - sixteen bytes that hold one key's budget, and the only three ways to touch them.
 *
 * A cell is a pair of words that change together or not at all:
 *
 *     tag    [queued:1][shape:15][tag:48]   who it is: shape 0 is EMPTY; `queued` is 0 until callers may wait
 *     state  [0][state:63]                  FINAL: the shape's word, or [gen:31][ring or record:32]
 *            [1][ms:31][nonce:32]           TENT: being inserted since `ms`, by the placement `nonce`
 *
 * One exchange of both makes charge and identity one step: a cell given to another key in between makes the
 * exchange fail, which two 8-byte exchanges could not promise.
 *
 * Words:    groups of eight cells, written by whoever decides, places, reclaims or sweeps; read by all.
 * Ordering: every exchange is a full barrier, every read an acquire. A cell is its whole state, so most reads
 *           need no order; the insertion does (table.c), and a log's cell publishes its ring (log.c).
 * Progress: each operation here is one instruction on the targets we build for, hence wait-free.
 * Reuse:    a FINAL content never recurs for another history: see store/README.md, rule 9.
 *
 * The exchange is the __sync builtin: gcc turns 16-byte __atomic ones into calls of libatomic, whose locks
 * would not be lock-free, and the thread sanitizer cannot see through inline assembly. x86-64 needs -mcx16.
 */
#ifndef WEIR_STORE_CELL_H
#define WEIR_STORE_CELL_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define CELL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CELL_SANITIZED 1
#endif
#endif
#ifndef CELL_SANITIZED
#define CELL_SANITIZED 0
#endif

#if defined(__x86_64__) && !CELL_SANITIZED
#include <emmintrin.h>
#define CELL_HAS_SSE 1
#else
#define CELL_HAS_SSE 0
#endif

/* Called before every touch of shared memory. Tests switch threads here; see test/threads/schedule.h. */
#ifndef CELL_STEP
#define CELL_STEP() ((void)0)
#endif

#define CELL_TAG_BITS 48
#define CELL_TAG_MASK ((UINT64_C(1) << CELL_TAG_BITS) - 1)
#define CELL_QUEUED (UINT64_C(1) << 63)
#define CELL_SHAPE_MASK (~CELL_QUEUED & ~CELL_TAG_MASK)
#define CELL_TENT (UINT64_C(1) << 63)

struct cell {
    _Alignas(16) uint64_t tag;
    uint64_t state;
};

/* Two cache lines. A key's candidates are two groups. */
#define GROUP_CELLS 8
struct group {
    _Alignas(128) struct cell cells[GROUP_CELLS];
};

_Static_assert(sizeof(struct cell) == 16, "one exchange must cover a cell");
_Static_assert(sizeof(struct group) == 128, "a group is two cache lines");

__extension__ typedef unsigned __int128 __attribute__((may_alias)) cell_bits;

/* In registers: through memory, the two halves would wait for each other's store. */
static inline cell_bits cell_to_bits(struct cell cell)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (cell_bits)cell.state << 64 | cell.tag;
#else
    return (cell_bits)cell.tag << 64 | cell.state;
#endif
}

static inline struct cell cell_from_bits(cell_bits bits)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (struct cell){ (uint64_t)bits, (uint64_t)(bits >> 64) };
#else
    return (struct cell){ (uint64_t)(bits >> 64), (uint64_t)bits };
#endif
}

/*
 * Replace exactly `seen` by `next`.
 * order:    full barrier (acquire and release).
 * progress: wait-free; false means that the cell held something else, so somebody's step succeeded.
 * reuse:    identity and state are compared together, so a cell that changed hands is never charged.
 */
#ifndef CELL_EXCHANGE
#define CELL_EXCHANGE(cell, seen, next) \
    __sync_bool_compare_and_swap((cell_bits *)(cell), cell_to_bits(seen), cell_to_bits(next))
#endif
static inline bool cell_exchange(struct cell *cell, struct cell seen, struct cell next)
{
    CELL_STEP();
    return CELL_EXCHANGE(cell, seen, next);
}

/*
 * Read both words at one instant.
 * order:    acquire.
 * progress: wait-free. With AVX an aligned 16-byte load is atomic (documented by Intel and AMD); elsewhere the
 *           read is an exchange of nothing for nothing, which writes what it finds.
 * reuse:    the pair was the cell's content at one instant, so an answer computed from it is linearizable.
 */
static inline struct cell cell_load(struct cell *cell, bool has_wide_load)
{
    CELL_STEP();
#if CELL_HAS_SSE
    if (__builtin_expect(has_wide_load, 1)) {
        __m128i bits = *(volatile __m128i *)cell;
        __atomic_signal_fence(__ATOMIC_ACQUIRE);
        return (struct cell){ (uint64_t)_mm_cvtsi128_si64(bits),
                              (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(bits, bits)) };
    }
#endif
    (void)has_wide_load;
    return cell_from_bits(__sync_val_compare_and_swap((cell_bits *)cell, 0, 0));
}

/*
 * Which cells of a group have this tag's low 32 bits, as a mask: a filter, to be confirmed by cell_load().
 * order:    relaxed. A match is read again; a miss is only a hint until the insertion's own scans confirm it.
 * progress: wait-free.
 *
 * Eight cells without a branch: gather the low halves of the tag words, compare four at a time.
 */
static inline unsigned group_match(const struct group *group, uint64_t tag)
{
    CELL_STEP();
#if CELL_HAS_SSE
    const __m128i *at = (const __m128i *)(const void *)group->cells;
    const __m128i wanted = _mm_set1_epi32((int)(uint32_t)tag);
    __m128i low01 = _mm_unpacklo_epi32(_mm_load_si128(at + 0), _mm_load_si128(at + 1));
    __m128i low23 = _mm_unpacklo_epi32(_mm_load_si128(at + 2), _mm_load_si128(at + 3));
    __m128i low45 = _mm_unpacklo_epi32(_mm_load_si128(at + 4), _mm_load_si128(at + 5));
    __m128i low67 = _mm_unpacklo_epi32(_mm_load_si128(at + 6), _mm_load_si128(at + 7));
    __m128i first = _mm_cmpeq_epi32(_mm_unpacklo_epi64(low01, low23), wanted);
    __m128i second = _mm_cmpeq_epi32(_mm_unpacklo_epi64(low45, low67), wanted);
    __m128i both = _mm_packs_epi32(first, second);
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(both, both)) & 0xff;
#else
    unsigned mask = 0;
    for (unsigned i = 0; i < GROUP_CELLS; i++) {
        uint64_t word = __atomic_load_n(&group->cells[i].tag, __ATOMIC_RELAXED);
        mask |= (unsigned)((uint32_t)word == (uint32_t)tag) << i;
    }
    return mask;
#endif
}

static inline bool cell_is_empty(struct cell cell)
{
    return cell.tag == 0;
}

static inline bool cell_is_tent(struct cell cell)
{
    return (cell.state & CELL_TENT) != 0;
}

/* Whether the cell, EMPTY excluded, belongs to the key of this tag, under whichever shape. */
static inline bool cell_has_tag(struct cell cell, uint64_t tag)
{
    return cell.tag != 0 && (cell.tag & CELL_TAG_MASK) == tag;
}

static inline uint16_t cell_shape_number(struct cell cell)
{
    return (uint16_t)((cell.tag & ~CELL_QUEUED) >> CELL_TAG_BITS);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// Allocators: the system's, and one that counts. The only file with malloc.
#include "base/memory/allocator.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/require.h"
#include "base/threads/threads.h"

// ---- The system's ----------------------------------------------------------
static void *system_allocate(ls_allocator *self, size_t size,
                             size_t alignment) {
  (void)self;
  if (alignment <= _Alignof(max_align_t)) return malloc(size);
  size_t rounded = 0;  // aligned_alloc wants a multiple of the alignment.
  if (__builtin_add_overflow(size, alignment - 1, &rounded)) return NULL;
  return aligned_alloc(alignment, rounded & ~(alignment - 1));
}

static void system_release(ls_allocator *self, void *memory) {
  (void)self;
  free(memory);
}

ls_allocator *ls_allocator_system(void) {
  static ls_allocator system = {system_allocate, system_release};
  return &system;
}

// ---- Huge pages ------------------------------------------------------------
void *ls_allocate_large(ls_allocator *allocator, size_t size) {
  if (size < LS_HUGE_PAGE)
    return allocator->allocate(allocator, size != 0 ? size : 1, LS_CACHE_LINE);
  void *memory = allocator->allocate(allocator, size, LS_HUGE_PAGE);
#if defined(MADV_HUGEPAGE)
  // A hint to the kernel. Only whole pages of the block are advised, never a
  // neighbour's.
  if (memory != NULL)
    madvise(memory, size & ~(size_t)(LS_HUGE_PAGE - 1), MADV_HUGEPAGE);
#endif
  return memory;
}

// ---- Growth ----------------------------------------------------------------
bool ls_grow(ls_allocator *allocator, void *array, size_t *capacity,
             size_t needed, size_t item_size) {
  if (needed <= *capacity) return true;
  size_t target = *capacity < 8 ? 8 : *capacity;
  while (target < needed)
    if (__builtin_mul_overflow(target, (size_t)2, &target)) return false;
  void *grown = ls_allocate_zeroed(allocator, target, item_size);
  if (grown == NULL) return false;
  void *old = NULL;
  memcpy(&old, array, sizeof(old));  // `array` may be any T **.
  if (*capacity > 0) memcpy(grown, old, *capacity * item_size);
  ls_release(allocator, old);
  memcpy(array, &grown, sizeof(grown));
  *capacity = target;
  return true;
}

char *ls_copy_text(ls_allocator *allocator, const char *text, size_t size) {
  if (size == SIZE_MAX) return NULL;
  char *copy = ls_allocate(allocator, size + 1);
  if (copy == NULL) return NULL;
  if (size > 0) memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}

// ---- Counting allocator ----------------------------------------------------
struct ls_counting_allocator {
  ls_allocator base;  // First member: the functions below get its address.
  ls_allocator *source;
  ls_mutex lock;  // Guards the fields below.
  ls_allocator_counts counts;
  uint64_t fail_at;  // Number of the request that fails; 0: none.
};

// Precedes each block and stores its size for the release. It takes up one
// alignment, so that the block stays aligned.
typedef struct block_header {
  size_t size;
  size_t offset;  // From the block's start to the user's bytes.
} block_header;

static bool count_request(ls_counting_allocator *counting) {
  ls_mutex_lock(&counting->lock);
  const bool fails = ++counting->counts.allocations == counting->fail_at;
  if (fails) counting->fail_at = 0;
  ls_mutex_unlock(&counting->lock);
  return !fails;
}

static void count_block(ls_counting_allocator *counting, size_t size) {
  ls_mutex_lock(&counting->lock);
  ls_allocator_counts *counts = &counting->counts;
  ++counts->live_blocks;
  counts->live_bytes += size;
  if (counts->live_bytes > counts->peak_bytes)
    counts->peak_bytes = counts->live_bytes;
  ls_mutex_unlock(&counting->lock);
}

static void *counting_allocate(ls_allocator *self, size_t size,
                               size_t alignment) {
  ls_counting_allocator *counting = (ls_counting_allocator *)self;
  if (!count_request(counting)) return NULL;
  const size_t offset =
      alignment > sizeof(block_header) ? alignment : sizeof(block_header);
  size_t total = 0;
  if (__builtin_add_overflow(size, offset, &total)) return NULL;
  char *block = counting->source->allocate(counting->source, total, offset);
  if (block == NULL) return NULL;
  char *memory = block + offset;
  const block_header header = {size, offset};
  memcpy(memory - sizeof(header), &header, sizeof(header));
  count_block(counting, size);
  return memory;
}

static void counting_release(ls_allocator *self, void *memory) {
  if (memory == NULL) return;
  ls_counting_allocator *counting = (ls_counting_allocator *)self;
  block_header header = {0};
  memcpy(&header, (char *)memory - sizeof(header), sizeof(header));
  ls_mutex_lock(&counting->lock);
  --counting->counts.live_blocks;
  counting->counts.live_bytes -= header.size;
  ls_mutex_unlock(&counting->lock);
  counting->source->release(counting->source, (char *)memory - header.offset);
}

ls_status ls_counting_allocator_create(ls_allocator *base,
                                       ls_counting_allocator **out_allocator) {
  LS_REQUIRE_OUT(out_allocator);
  if (base == NULL) base = ls_allocator_system();
  ls_counting_allocator *counting = ls_new(base, ls_counting_allocator);
  if (counting == NULL) return ls_out_of_memory();
  counting->base.allocate = counting_allocate;
  counting->base.release = counting_release;
  counting->source = base;
  ls_status status = ls_mutex_init(&counting->lock);
  if (!ls_status_is_ok(status)) {
    ls_release(base, counting);
    return status;
  }
  *out_allocator = counting;
  return ls_ok();
}

void ls_counting_allocator_destroy(ls_counting_allocator *allocator) {
  if (allocator == NULL) return;
  ls_mutex_deinit(&allocator->lock);
  ls_release(allocator->source, allocator);
}

ls_allocator *
ls_counting_allocator_allocator(ls_counting_allocator *allocator) {
  return &allocator->base;
}

ls_allocator_counts
ls_counting_allocator_counts(const ls_counting_allocator *allocator) {
  // Casts const away from the lock only, which is no visible state.
  ls_mutex *lock = (ls_mutex *)(uintptr_t)&allocator->lock;
  ls_mutex_lock(lock);
  const ls_allocator_counts counts = allocator->counts;
  ls_mutex_unlock(lock);
  return counts;
}

void ls_counting_allocator_fail_at(ls_counting_allocator *allocator,
                                   uint64_t nth) {
  ls_mutex_lock(&allocator->lock);
  allocator->fail_at = nth == 0 ? 0 : allocator->counts.allocations + nth;
  ls_mutex_unlock(&allocator->lock);
}

// ---- Graveyard -------------------------------------------------------------
static ls_mutex graves_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static void *graves[LS_GRAVES];
static size_t next_grave;

void ls_bury(void *memory) {
  if (memory == NULL) return;
  ls_mutex_lock(&graves_lock);
  void *oldest = graves[next_grave];
  graves[next_grave] = memory;
  next_grave = (next_grave + 1) % LS_GRAVES;
  ls_mutex_unlock(&graves_lock);
  ls_release(ls_allocator_system(), oldest);
}

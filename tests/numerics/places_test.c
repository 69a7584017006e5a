// SPDX-License-Identifier: Apache-2.0
//
// Where buffers lie: big ones that follow one another in a plan do not begin at
// the same place of a page, which would make streams through them slow, and
// blocks of huge pages' size begin on one.
#include "support/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/run/executable.h"
#include "support/lowered.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, APART = 128, MOST_PLACES = 64 };

// ---- Plans -----------------------------------------------------------------
typedef struct place {
  size_t offset, size;
} place;

// The different places of an arena's big buffers, in the order of the plan.
static size_t read_places(const char *plan, const char *arena, place *places) {
  size_t count = 0;
  char mark[32];
  snprintf(mark, sizeof(mark), "%s+0x", arena);
  for (const char *at = plan; (at = strstr(at, mark)) != NULL;) {
    char *end = NULL;
    place found = {.offset = strtoull(at + strlen(mark), &end, 16)};
    assert_int_equal(*end, ':');
    found.size = strtoull(end + 1, NULL, 10);
    at = end;
    bool is_new = found.size >= PAGE;
    for (size_t i = 0; i < count; ++i)
      is_new = is_new && places[i].offset != found.offset;
    if (!is_new) continue;
    assert_in_range(count, 0, MOST_PLACES - 1);
    places[count++] = found;
  }
  return count;
}

// How far two places are apart on a page.
static size_t apart(size_t a, size_t b) {
  const size_t distance = (a > b ? a - b : b - a) % PAGE;
  return distance < PAGE - distance ? distance : PAGE - distance;
}

static int compare_places(const void *a, const void *b) {
  const place *x = a, *y = b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

static void expect_staggered(const char *plan, const char *arena,
                             size_t least) {
  place places[MOST_PLACES];
  const size_t count = read_places(plan, arena, places);
  if (count < least) fail_msg("%zu big buffers in\n%s", count, plan);
  // Neighbours in memory, and those that are made one after the other.
  for (int sorted = 0; sorted < 2; ++sorted) {
    for (size_t i = 1; i < count; ++i)
      if (apart(places[i - 1].offset, places[i].offset) < APART)
        fail_msg("buffers at 0x%zx and 0x%zx in\n%s", places[i - 1].offset,
                 places[i].offset, plan);
    qsort(places, count, sizeof(*places), compare_places);
  }
}

static const char program_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {dtype = f32, shape = shape[64,64], index = 0} "
    ": f32[64,64]"
    "  %2 = matmul(%1, %1) {transpose_x = false, transpose_y = false} "
    ": f32[64,64]"
    "  %3 = matmul(%2, %1) {transpose_x = false, transpose_y = false} "
    ": f32[64,64]"
    "  %4 = matmul(%3, %2) {transpose_x = false, transpose_y = false} "
    ": f32[64,64]"
    "  %5 = matmul(%4, %3) {transpose_x = false, transpose_y = false} "
    ": f32[64,64]"
    "  %6 = matmul(%5, %2) {transpose_x = false, transpose_y = false} "
    ": f32[64,64]"
    "  %7 = matmul(%6, %4) {transpose_x = false, transpose_y = false} "
    ": f32[64,64]"
    "  return %7 }";

TEST(buffers_of_whole_pages_do_not_lie_alike) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = program_text}, &program));
  HEAP(char, plan) = lowered_plan(&program);
  expect_staggered(plan, "shared", 3);
}

// ---- Large blocks ----------------------------------------------------------
TEST(large_blocks_begin_on_a_huge_page) {
  static const size_t sizes[] = {1,         4096,          HUGE_PAGE - 1,
                                 HUGE_PAGE, HUGE_PAGE + 1, 5 * HUGE_PAGE + 77};
  ls_allocator *allocator = ls_allocator_system();
  for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i) {
    char *memory = ls_allocate_large(allocator, sizes[i]);
    assert_non_null(memory);
    const size_t wanted = sizes[i] >= HUGE_PAGE ? HUGE_PAGE : LS_CACHE_LINE;
    assert_int_equal((uintptr_t)memory % wanted, 0);
    memory[sizes[i] - 1] = 1;
    ls_release(allocator, memory);
  }
}

TEST(large_variables_begin_on_a_huge_page) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .num_uses = 2,
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {dtype = f32, shape = shape[1024,1024], "
                  "index = 0} : f32[1024,1024]"
                  "  %2 = parameter() {dtype = f32, shape = shape[100], "
                  "index = 1} : f32[100]"
                  "  %3 = reduce_sum(%1) {axes = [0, 1], keep_dims = false} "
                  ": f32[]"
                  "  %4 = reduce_sum(%2) {axes = [0], keep_dims = false} "
                  ": f32[]"
                  "  %5 = add(%3, %4) : f32[]"
                  "  return %5 }"},
      &program));
  assert_int_equal((uintptr_t)program.buffers[0]->data % HUGE_PAGE, 0);
  assert_int_equal((uintptr_t)program.buffers[1]->data % LS_CACHE_LINE, 0);
}

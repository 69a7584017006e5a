// SPDX-License-Identifier: Apache-2.0
//
// Who shares what: when threads take parts of the replicas, and when they share
// the blocks of instructions.
#include "support/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/cpu/run/merge.h"
#include "support/lowered.h"
#include "support/place.h"

static const char *lanes_switch(void *user, const char *name) {
  return strcmp(name, "LS_LANES") == 0 ? user : NULL;
}

// What replicas do: a square matrix is multiplied with itself again and again,
// so many times, and the last product summed up over replicas.
typedef struct lane_work {
  int size, products;
} lane_work;
static const lane_work many_small = {64, 24}, few_large = {512, 1},
                       little = {8, 1};

static char *text_of(int32_t replicas, const lane_work *work) {
  char type[32];
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  snprintf(type, sizeof(type), "f32[%d,%d]", work->size, work->size);
  ls_text_append_format(
      &text,
      "graph lowered \"p\" {"
      "  %%1 = parameter() {dtype = f32, shape = shape[%d,%d], index = 0} : %s"
      "  %%2 = replicate(%%1) {replicas = %d, num_split = 0, num_gathered = 0}"
      "  (graph lowered \"r\" {"
      "    %%1 = parameter() {dtype = f32, shape = shape[%d,%d], index = 0}"
      "    captures (%%1) : %s"
      "    %%2 = replica_id() varying : i32[]"
      "    %%3 = convert(%%2) {dtype = f32} varying : f32[]"
      "    %%4 = add(%%1, %%3) varying : %s",
      work->size, work->size, type, replicas, work->size, work->size, type,
      type);
  int last = 4;
  for (int i = 0; i < work->products; ++i, ++last)
    ls_text_append_format(&text, " %%%d = matmul(%%%d, %%1) varying : %s",
                          last + 1, last, type);
  ls_text_append_format(&text,
                        " %%%d = all_reduce(%%%d) {reduce = \"sum\"} : %s"
                        " return %%%d }) : %s return %%2 }",
                        last + 1, last, type, last + 1, type);
  return ls_text_finish(&text);
}

static void expect_parts(int32_t replicas, int threads, const lane_work *work,
                         const char *lanes, const char *part) {
  char *text = text_of(replicas, work);
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = threads,
                           .environment = lanes_switch,
                           .environment_user = (void *)(uintptr_t)lanes});
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = text}, &program));
  free(text);
  HEAP(char, plan) = lowered_plan(&program);
  if (part != NULL) {
    expect_contains(plan, part);
  } else {
    assert_null(strstr(plan, " parts"));
  }
}

TEST(threads_take_replicas_where_instructions_are_small) {
  // Two parts a thread, so that one can be left to another.
  expect_parts(8, 2, &many_small, "cost", " in 4 parts");
  expect_parts(64, 8, &many_small, "cost", " in 16 parts");
  expect_parts(8, 8, &many_small, "cost", " in 8 parts");
  // Single replicas, as larger parts would leave a thread idle.
  expect_parts(5, 2, &many_small, "cost", " in 5 parts");
  expect_parts(8, 3, &many_small, "cost", " in 8 parts");
}

TEST(threads_share_blocks_where_these_are_large) {
  expect_parts(8, 2, &few_large, "cost", NULL);
  expect_parts(3, 2, &few_large, "cost", NULL);
  expect_parts(8, 1, &many_small, "cost", NULL);
}

TEST(little_work_wakes_nobody) { expect_parts(8, 2, &little, "cost", NULL); }

TEST(a_switch_decides_for_tests) {
  expect_parts(3, 2, &little, "threads", " in 3 parts");
  expect_parts(8, 1, &little, "threads", NULL);
  expect_parts(8, 2, &many_small, "blocks", NULL);
}

// ---- Trees of parts --------------------------------------------------------
// The tree over some leaves as text: "((01)2)".
typedef struct tree {
  char text[256];
} tree;

static void combine(const ls_kernel_call *call, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  const tree *left = call->in[0], *right = call->in[1];
  tree both;
  assert_true(snprintf(both.text, sizeof(both.text), "(%s%s)", left->text,
                       right->text) < (int)sizeof(both.text));
  memcpy(call->out[0], &both, sizeof(both));
}

// Merges `count` leaves in parts of 2^shift.
static void merge_in_parts(uint32_t count, uint32_t shift, tree *out) {
  const ls_cpu_merge merge = {.replicas = (int32_t)count,
                              .combine = {.loop = combine, .blocks = 1},
                              .bytes = sizeof(tree),
                              .stride = sizeof(tree)};
  const uint32_t parts = ((count - 1) >> shift) + 1, size = 1U << shift;
  const uint32_t depth = ls_cpu_merge_depth(size);
  HEAP(tree, stacks) = calloc((size_t)parts * depth, sizeof(*stacks));
  assert_non_null(stacks);
  ls_kernel_call call = {0};
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t part = i >> shift, first = part << shift;
    const uint32_t here = count - first < size ? count - first : size;
    tree leaf = {{(char)('a' + i)}};
    const ls_cpu_leaf at = ls_cpu_leaf_at(i - first, here);
    ls_cpu_merge_add(&merge, &call, &at, &leaf,
                     (char *)(stacks + (size_t)part * depth), NULL, NULL);
  }
  const ls_cpu_parts all = {(char *)stacks, depth * sizeof(tree), 0, parts};
  ls_cpu_merge_parts(&merge, &call, &all, 0, parts, parts > 1 ? out : NULL);
  if (parts == 1) *out = stacks[0];
}

static void the_tree_over_leaves(char first, uint32_t count, char *out) {
  if (count == 1) {
    out[0] = first;
    out[1] = '\0';
    return;
  }
  uint32_t left = 1;
  while (left * 2 < count)
    left *= 2;
  strcpy(out, "(");
  the_tree_over_leaves(first, left, out + strlen(out));
  the_tree_over_leaves((char)(first + (char)left), count - left,
                       out + strlen(out));
  strcat(out, ")");
}

TEST(parts_of_any_size_form_the_canonical_tree) {
  for (uint32_t count = 2; count <= 24; ++count) {
    for (uint32_t shift = 0; count >> shift > 0; ++shift) {
      tree want, got;
      the_tree_over_leaves('a', count, want.text);
      merge_in_parts(count, shift, &got);
      assert_string_equal(got.text, want.text);
    }
  }
}

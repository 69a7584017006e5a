// SPDX-License-Identifier: Apache-2.0
// The CPU engine: what branches leave alone stays where it is, whatever else
// lies in its place.
#include "support/loop_case.h"
#include "support/replica_lanes.h"
#include "support/sanitizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/text.h"

enum { SLOTS = 3, WIDTH = 2 };

static float *variable(lowered *program, size_t i) {
  return (float *)program->buffers[i]->data;
}

// ---- Nothing is moved ------------------------------------------------------
// Sums are held until it is time for a step: sum += x; if p: w -= sum, sum = 0.
static const char held_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {dtype = bool, shape = shape[], index = 0} : bool[]"
    "  %2 = parameter() {dtype = f32, shape = shape[2], index = 1} : f32[2]"
    "  %3 = parameter() {dtype = f32, shape = shape[2], index = 2} : f32[2]"
    "  %4 = parameter() {dtype = f32, shape = shape[2], index = 3} : f32[2]"
    "  %5 = add(%4, %2) : f32[2]"
    "  %6:2 = cond(%1, %3, %5, %3, %5)"
    "  (graph lowered \"then\" {"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0}"
    "    captures (%3) : f32[2]"
    "    %2 = parameter() {dtype = f32, shape = shape[2], index = 1}"
    "    captures (%5) : f32[2]"
    "    %3 = sub(%1, %2) : f32[2]"
    "    %4 = constant() {value = f32[] [0]} : f32[]"
    "    %5 = broadcast(%4) {sizes = sizes[2]} : f32[2]"
    "    return %3, %5 }, graph lowered \"else\" {"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0}"
    "    captures (%3) : f32[2]"
    "    %2 = parameter() {dtype = f32, shape = shape[2], index = 1}"
    "    captures (%5) : f32[2]"
    "    return %1, %2 }) : f32[2], f32[2]"
    "  return %6, %6:1 }";

TEST(a_branch_that_changes_nothing_moves_nothing) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = held_text,
                                              .num_uses = 2,
                                              .written = {true, true}},
                           &program));
  assert_int_equal(lowered_plan_count(&program, "  copy"), 0);
  const float x[WIDTH] = {1, 2};
  for (int call = 0; call < 6; ++call) {
    const bool due = call % 3 == 2;
    expect_ok(lowered_run(&program, (const void *[]){&due, x}, NULL));
    const float steps = (float)((call + 1) / 3 * 3);
    const float held = (float)((call + 1) % 3);
    assert_memory_equal(variable(&program, 0),
                        ((float[]){0 - steps, 0 - 2 * steps}), 8);
    assert_memory_equal(variable(&program, 1), ((float[]){held, 2 * held}), 8);
  }
}

// ---- Any program -----------------------------------------------------------
// A random program on three variables, with branches and loops in each other.
// It is written as text, or computed; the same numbers are drawn either way.
typedef struct maker {
  loop_random random;
  ls_text *text;      // NULL: it is computed.
  const bool *takes;  // Which branch a predicate takes.
} maker;

// A region on its way: the refs of predicates and slots, or the slots' values.
typedef struct region {
  int next;     // The next node's number.
  bool varies;  // Its ops differ between replicas.
  char predicates[SLOTS][12], slots[SLOTS][12];
  float values[SLOTS][WIDTH];
} region;

static size_t draw(maker *m, size_t below) {
  return loop_random_bits(&m->random) % below;
}

static void write_block(maker *m, region *r, int depth);

static const char *varying(const region *r) {
  return r->varies ? " varying" : "";
}

static void write_parameter(maker *m, region *r, int index, const char *type,
                            const char *shape, const char *captured,
                            char *ref) {
  ls_text_append_format(m->text,
                        " %%%d = parameter() {dtype = %s, shape = shape[%s], "
                        "index = %d}%s%s%s : %s[%s]",
                        r->next, type, shape, index,
                        captured == NULL ? "" : " captures (",
                        captured == NULL ? "" : captured,
                        captured == NULL ? "" : ")", type, shape);
  snprintf(ref, 12, "%%%d", r->next++);
}

// A region inside of `outer`, up to its first op. What goes round in a loop
// comes first and is no capture.
static region begin_region(maker *m, const region *outer, bool loops) {
  region r = {.next = 1};
  memcpy(r.values, outer->values, sizeof(r.values));
  if (m->text == NULL) return r;
  ls_text_append_format(m->text, "graph lowered \"r\"%s {",
                        loops ? " loop" : "");
  for (int i = 0; loops && i < SLOTS; ++i)
    write_parameter(m, &r, i, "f32", "2", NULL, r.slots[i]);
  for (int i = 0; i < SLOTS; ++i)
    write_parameter(m, &r, loops ? SLOTS + i : i, "bool", "",
                    outer->predicates[i], r.predicates[i]);
  for (int i = 0; !loops && i < SLOTS; ++i)
    write_parameter(m, &r, SLOTS + i, "f32", "2", outer->slots[i], r.slots[i]);
  return r;
}

static void end_region(maker *m, const region *r) {
  if (m->text != NULL)
    ls_text_append_format(m->text, " return %s, %s, %s }", r->slots[0],
                          r->slots[1], r->slots[2]);
}

static void write_refs(maker *m, const char (*refs)[12]) {
  for (int i = 0; i < SLOTS; ++i)
    ls_text_append_format(m->text, ", %s", refs[i]);
}

static void take_outputs(maker *m, region *r) {
  if (m->text == NULL) return;
  ls_text_append(m->text, ") : f32[2], f32[2], f32[2]");
  for (int i = 0; i < SLOTS; ++i)
    snprintf(r->slots[i], sizeof(r->slots[i]), i == 0 ? "%%%d" : "%%%d:%d",
             r->next, i);
  ++r->next;
}

static void write_cond(maker *m, region *r, int depth) {
  const size_t which = draw(m, SLOTS);
  if (m->text != NULL) {
    ls_text_append_format(m->text, " %%%d:3 = cond(%s", r->next,
                          r->predicates[which]);
    for (int i = 0; i < 2; ++i) {
      write_refs(m, r->predicates);
      write_refs(m, r->slots);
    }
    ls_text_append_format(m->text, ")%s (", varying(r));
  }
  const region outer = *r;
  for (int i = 0; i < 2; ++i) {
    region branch = begin_region(m, &outer, false);
    write_block(m, &branch, depth - 1);
    end_region(m, &branch);
    if (m->text != NULL && i == 0) ls_text_append(m->text, ", ");
    if (m->text == NULL && m->takes[which] == (i == 0))
      memcpy(r->values, branch.values, sizeof(r->values));
  }
  take_outputs(m, r);
}

// Two trips.
static void write_while(maker *m, region *r, int depth) {
  if (m->text == NULL) {
    const loop_random before = m->random;
    write_block(m, r, depth - 1);
    m->random = before;
    write_block(m, r, depth - 1);
    return;
  }
  ls_text_append_format(m->text, " %%%d:3 = while(%s, %s, %s", r->next,
                        r->slots[0], r->slots[1], r->slots[2]);
  write_refs(m, r->predicates);
  ls_text_append_format(m->text,
                        ") {num_carried = 3, max_trips = 2}%s "
                        "(graph lowered \"c\" loop {",
                        varying(r));
  region condition = {.next = 1};
  for (int i = 0; i < SLOTS; ++i)
    write_parameter(m, &condition, i, "f32", "2", NULL, condition.slots[i]);
  ls_text_append(m->text, " %4 = constant() {value = bool[] [true]} : bool[]"
                          " return %4 }, ");
  region body = begin_region(m, r, true);
  write_block(m, &body, depth - 1);
  end_region(m, &body);
  take_outputs(m, r);
}

static void write_op(maker *m, region *r) {
  const size_t to = draw(m, SLOTS), a = draw(m, SLOTS), b = draw(m, SLOTS);
  const bool adds = draw(m, 2) == 0;
  for (int i = 0; i < WIDTH; ++i)
    r->values[to][i] = adds ? r->values[a][i] + r->values[b][i]
                            : r->values[a][i] - r->values[b][i];
  if (m->text == NULL) return;
  ls_text_append_format(m->text, " %%%d = %s(%s, %s)%s : f32[2]", r->next,
                        adds ? "add" : "sub", r->slots[a], r->slots[b],
                        varying(r));
  snprintf(r->slots[to], sizeof(r->slots[to]), "%%%d", r->next++);
}

static void exchange(maker *m, region *r) {
  const size_t a = draw(m, SLOTS), b = draw(m, SLOTS);
  const region old = *r;
  memcpy(r->slots[a], old.slots[b], sizeof(old.slots[b]));
  memcpy(r->slots[b], old.slots[a], sizeof(old.slots[a]));
  memcpy(r->values[a], old.values[b], sizeof(old.values[b]));
  memcpy(r->values[b], old.values[a], sizeof(old.values[a]));
}

static void write_block(maker *m, region *r, int depth) {
  for (size_t left = draw(m, 4); left > 0; --left) {
    const size_t kind = draw(m, depth > 0 ? 8 : 5);
    if (kind < 4)
      write_op(m, r);
    else if (kind == 4)
      exchange(m, r);
    else if (kind == 7)
      write_while(m, r, depth);
    else
      write_cond(m, r, depth);
  }
}

enum { DEPTH = 3 };

static void write_body(maker *m, region *r) {
  write_block(m, r, DEPTH);
  write_cond(m, r, DEPTH);
  write_block(m, r, DEPTH);
}

static const float initial[SLOTS][WIDTH] = {{1, 2}, {10, 20}, {100, 200}};

static char *variables_text(uint64_t seed) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  maker m = {.random = {seed}, .text = &text};
  region r = {.next = 1};
  ls_text_append(&text, "graph lowered \"p\" {");
  for (int i = 0; i < SLOTS; ++i)
    write_parameter(&m, &r, i, "bool", "", NULL, r.predicates[i]);
  for (int i = 0; i < SLOTS; ++i)
    write_parameter(&m, &r, SLOTS + i, "f32", "2", NULL, r.slots[i]);
  write_body(&m, &r);
  // One result, and the variables' values.
  ls_text_append_format(&text, " return %s", r.slots[0]);
  write_refs(&m, r.slots);
  ls_text_append(&text, " }");
  return ls_text_finish(&text);
}

// What the slots are when predicates are these bits.
static region compute(uint64_t seed, unsigned bits) {
  const bool takes[SLOTS] = {bits & 1, bits & 2, bits & 4};
  maker m = {.random = {seed}, .takes = takes};
  region want = {0};
  memcpy(want.values, initial, sizeof(initial));
  write_body(&m, &want);
  return want;
}

static void fail_with_plan(uint64_t seed, unsigned bits, lowered *program) {
  char *plan = lowered_plan(program);
  fail_msg("seed %llu, predicates %u: other values\n%s",
           (unsigned long long)seed, bits, plan);
}

static void expect_variables(uint64_t seed) {
  HEAP(char, text) = variables_text(seed);
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = text,
                                              .num_uses = SLOTS,
                                              .written = {true, true, true}},
                           &program));
  for (unsigned bits = 0; bits < 1U << SLOTS; ++bits) {
    const bool takes[SLOTS] = {bits & 1, bits & 2, bits & 4};
    const region want = compute(seed, bits);
    float result[WIDTH];
    for (size_t i = 0; i < SLOTS; ++i)
      memcpy(variable(&program, i), initial[i], sizeof(initial[i]));
    expect_ok(lowered_run(&program,
                          (const void *[]){&takes[0], &takes[1], &takes[2]},
                          (void *[]){result}));
    bool same = memcmp(result, want.values[0], sizeof(result)) == 0;
    for (size_t i = 0; i < SLOTS; ++i)
      same = same && memcmp(variable(&program, i), want.values[i],
                            sizeof(want.values[i])) == 0;
    if (!same) fail_with_plan(seed, bits, &program);
  }
}

// ---- In replicas -----------------------------------------------------------
// A replica for all that predicates can be, each with slots of its own.
enum { REPLICAS = 1 << SLOTS, SPLIT = 2 * SLOTS * REPLICAS };

static char *replicas_text(uint64_t seed) {
  ls_text text;
  char ref[12];
  ls_text_init(&text, ls_allocator_system());
  maker m = {.random = {seed}, .text = &text};
  region all = {.next = 1}, r = {.next = 1, .varies = true};
  ls_text_append(&text, "graph lowered \"p\" {");
  for (int i = 0; i < SPLIT; ++i)
    write_parameter(&m, &all, i, i < SPLIT / 2 ? "bool" : "f32",
                    i < SPLIT / 2 ? "" : "2", NULL, ref);
  ls_text_append_format(&text, " %%%d:%d = replicate(%%1", all.next, SPLIT / 2);
  for (int i = 2; i <= SPLIT; ++i)
    ls_text_append_format(&text, ", %%%d", i);
  ls_text_append_format(&text,
                        ") {replicas = %d, num_split = %d, num_gathered = %d} "
                        "(graph lowered \"r\" {",
                        REPLICAS, 2 * SLOTS, SLOTS);
  for (int i = 0; i < 2 * SLOTS; ++i) {
    const bool is_slot = i >= SLOTS;
    ls_text_append_format(&text,
                          " %%%d = parameter() {dtype = %s, shape = shape[%s], "
                          "index = %d} varying : %s[%s]",
                          r.next, is_slot ? "f32" : "bool", is_slot ? "2" : "",
                          i, is_slot ? "f32" : "bool", is_slot ? "2" : "");
    snprintf(is_slot ? r.slots[i - SLOTS] : r.predicates[i], 12, "%%%d",
             r.next++);
  }
  write_body(&m, &r);
  end_region(&m, &r);
  ls_text_append(&text, ") : f32[2]");
  for (int i = 1; i < SPLIT / 2; ++i)
    ls_text_append(&text, ", f32[2]");
  for (int i = 0; i < SPLIT / 2; ++i)
    ls_text_append_format(&text, "%s%%%d:%d", i == 0 ? " return " : ", ",
                          all.next, i);
  ls_text_append(&text, " }");
  return ls_text_finish(&text);
}

static void expect_replicas(uint64_t seed) {
  static const bool bools[2] = {false, true};
  HEAP(char, text) = replicas_text(seed);
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = text}, &program));
  const void *inputs[SPLIT];
  float results[SLOTS][REPLICAS][WIDTH];
  void *outputs[SLOTS * REPLICAS];
  for (int i = 0; i < SLOTS * REPLICAS; ++i) {
    const int slot = i / REPLICAS, replica = i % REPLICAS;
    inputs[i] = &bools[replica >> slot & 1];
    inputs[SLOTS * REPLICAS + i] = initial[slot];
    outputs[i] = results[slot][replica];
  }
  expect_ok(lowered_run(&program, inputs, outputs));
  for (unsigned bits = 0; bits < REPLICAS; ++bits) {
    const region want = compute(seed, bits);
    for (int i = 0; i < SLOTS; ++i)
      if (memcmp(results[i][bits], want.values[i], sizeof(want.values[i])) != 0)
        fail_with_plan(seed, bits, &program);
  }
}

TEST(any_branches_give_what_they_compute) {
  const uint64_t first = loop_random_seed() * 1000000;
  for (uint64_t i = 0; i < (LS_SANITIZED ? 40 : 200); ++i) {
    expect_variables(first + i);
    expect_replicas(first + i);
  }
}

TEST_FILE(.run = lanes_run_tests)

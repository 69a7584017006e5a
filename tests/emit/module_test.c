// SPDX-License-Identifier: Apache-2.0
// Programs as StableHLO modules: what each device takes and gives, what is
// refused, and refused memory.
#include <string.h>

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "emit/stablehlo_module.h"
#include "graph/own.h"
#include "support/expect.h"
#include "support/fault.h"

// Two split arguments, a loop around replicas with a wide value, and a merge.
static const char replicas_text[] =
    "graph lowered \"t\" {\n"
    "%1 = parameter() {dtype = f32, shape = shape[3], index = 0} : f32[3]\n"
    "%2 = parameter() {dtype = f32, shape = shape[3], index = 1} : f32[3]\n"
    "%3 = parameter() {dtype = f32, shape = shape[3], index = 2} : f32[3]\n"
    "%4 = parameter() {dtype = f32, shape = shape[3], index = 3} : f32[3]\n"
    "%5 = parameter() {dtype = f32, shape = shape[3], index = 4} : f32[3]\n"
    "%6:6 = replicate(%1, %2, %3, %4, %5) {replicas = 4, num_split = 1, "
    "num_gathered = 1, num_wide_gathered = 1} (graph lowered \"r\" {\n"
    "%1 = parameter() {dtype = f32, shape = shape[3], index = 0} varying : "
    "f32[3]\n"
    "%2 = parameter() {dtype = f32, shape = shape[3], index = 1} captures (%5) "
    ": f32[3]\n"
    "%3 = mul(%1, %2) varying : f32[3]\n"
    "%4 = all_reduce(%3) {reduce = \"mean\"} : f32[3]\n"
    "%5 = replica_id() varying : i32[]\n"
    "%6 = add(%2, %4) : f32[3]\n"
    "return %3, %5, %6\n"
    "}) : f32[3], f32[3], f32[3], f32[3], i32[4], f32[3]\n"
    "%7:4 = replicate(%6:4) {replicas = 4, num_wide_split = 1, num_gathered = "
    "1} (graph lowered \"r\" {\n"
    "%1 = parameter() {dtype = i32, shape = shape[], index = 0} varying : "
    "i32[]\n"
    "%2 = neg(%1) varying : i32[]\n"
    "return %2\n"
    "}) : i32[], i32[], i32[], i32[]\n"
    "return %6:5, %6:0, %6:1, %6:2, %6:3, %7:0, %7:1, %7:2, %7:3\n"
    "}\n";

static ls_status write_program(const char *graph_text, ls_hlo_program program,
                               ls_arena *memory, ls_text *text,
                               ls_hlo_layout *layout) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_parse(graph_text, NULL, 0, &graph));
  program.body = graph;
  return ls_hlo_write_program(&program, memory, text, layout);
}

// A module's text and layout.
typedef struct written {
  ls_arena memory;
  ls_text text;
  ls_hlo_layout layout;
} written;

static void written_deinit(written *self) {
  ls_text_deinit(&self->text);
  ls_arena_deinit(&self->memory);
}
LS_OWNED_STRUCT(written, written_deinit)

static ls_status write_text(const char *graph_text, ls_hlo_program program,
                            written *out) {
  ls_allocator *allocator = ls_allocator_system();
  ls_arena_init(&out->memory, allocator);
  ls_text_init(&out->text, allocator);
  return write_program(graph_text, program, &out->memory, &out->text,
                       &out->layout);
}

static void expect_slots(const ls_hlo_slot *slots, size_t count,
                         const ls_hlo_slot *want, size_t want_count) {
  assert_int_equal(count, want_count);
  for (size_t i = 0; i < count; ++i) {
    assert_int_equal(slots[i].first, want[i].first);
    assert_int_equal(slots[i].stride, want[i].stride);
  }
}

TEST(devices_take_and_give_the_values_of_their_replicas) {
  static const int32_t aliases[] = {1, 2, 3, 4, 0};
  static const ls_hlo_slot arguments[] = {{0, 2}, {1, 2}, {4, 0}};
  static const ls_hlo_slot results[] = {{0, 0}, {1, 2}, {2, 2}, {5, 2}, {6, 2}};
  LS_OWN(written, module) = {0};
  expect_ok(write_text(replicas_text,
                       (ls_hlo_program){.aliases = aliases, .num_devices = 2},
                       &module));
  const char *text = ls_text_data(&module.text);
  expect_slots(module.layout.arguments, module.layout.num_arguments, arguments,
               LS_COUNT_OF(arguments));
  expect_slots(module.layout.results, module.layout.num_results, results,
               LS_COUNT_OF(results));
  assert_true(module.layout.draws);
  assert_false(module.layout.counts);
  assert_non_null(strstr(text, "%arg0: tensor<3xf32> {tf.aliasing_output = 1"));
  assert_non_null(strstr(text, "%arg2: tensor<3xf32> {tf.aliasing_output = 0"));
  assert_non_null(strstr(text, "%arg5: tensor<ui64>)"));
  assert_non_null(strstr(text, "stablehlo.all_reduce"));
}

TEST(sums_over_devices_are_exact_on_request) {
  LS_OWN(written, module) = {0};
  expect_ok(write_text(replicas_text,
                       (ls_hlo_program){.num_devices = 4, .exact = true},
                       &module));
  const char *text = ls_text_data(&module.text);
  assert_non_null(strstr(text, "stablehlo.all_gather"));
  assert_null(strstr(text, "stablehlo.all_reduce"));
}

// Values that are gathered or picked have a dimension more, of the devices.
TEST(values_of_devices_have_at_most_seven_dimensions) {
  static const char split[] =
      "graph lowered \"t\" {\n"
      "%1 = parameter() {dtype = f32, shape = shape[1, 1, 1, 1, 1, 1, 1, 2], "
      "index = 0} : f32[1,1,1,1,1,1,1,2]\n"
      "%2 = replicate(%1, %1) {replicas = 2, num_split = 1} (graph lowered "
      "\"r\" {\n"
      "%1 = parameter() {dtype = f32, shape = shape[1, 1, 1, 1, 1, 1, 1, 2], "
      "index = 0} varying : f32[1,1,1,1,1,1,1,2]\n"
      "%2 = all_reduce(%1) {reduce = \"sum\"} : f32[1,1,1,1,1,1,1,2]\n"
      "return %2\n"
      "}) : f32[1,1,1,1,1,1,1,2]\n"
      "return %2\n"
      "}\n";
  static const char made[] =
      "graph lowered \"t\" {\n"
      "%1 = replicate() {replicas = 2} (graph lowered \"r\" {\n"
      "%1 = replica_id() varying : i32[]\n"
      "%2 = reshape(%1) {sizes = sizes[1, 1, 1, 1, 1, 1, 1, 1]} varying : "
      "i32[1,1,1,1,1,1,1,1]\n"
      "%3 = all_reduce(%2) {reduce = \"sum\"} : i32[1,1,1,1,1,1,1,1]\n"
      "return %3\n"
      "}) : i32[1,1,1,1,1,1,1,1]\n"
      "return %1\n"
      "}\n";
  const ls_hlo_program fast = {.num_devices = 2};
  const ls_hlo_program exact = {.num_devices = 2, .exact = true};
  LS_OWN(written, module) = {0};
  LS_OWN(written, refused) = {0};
  LS_OWN(written, also) = {0};
  expect_ok(write_text(made, fast, &module));
  expect_status(write_text(made, exact, &refused), LS_UNIMPLEMENTED,
                "too many dimensions");
  expect_status(write_text(split, fast, &also), LS_UNIMPLEMENTED,
                "too many dimensions");
}

TEST(all_devices_compute_replicas_that_they_cannot_share) {
  LS_OWN(written, module) = {0};
  expect_ok(
      write_text(replicas_text, (ls_hlo_program){.num_devices = 3}, &module));
  assert_null(strstr(ls_text_data(&module.text), "stablehlo.all_"));
  assert_int_equal(module.layout.num_arguments, 5);
  assert_int_equal(module.layout.num_results, 9);
}

TEST(ops_without_a_form_are_refused_by_name) {
  LS_OWN(written, module) = {0};
  expect_status(
      write_text("graph lowered \"t\" {\n"
                 "%1 = parameter() {dtype = i64, shape = shape[], index = 0} "
                 ": i64[]\n"
                 "%2 = stack_new() {dtype = i64, shape = shape[]} : variant[]\n"
                 "%3:2 = while(%1, %2) {num_carried = 2} (graph lowered \"c\" "
                 "{\n"
                 "%1 = parameter() {dtype = i64, shape = shape[], index = 0} "
                 ": i64[]\n"
                 "%2 = parameter() {dtype = variant, shape = shape[], index = "
                 "1} : variant[]\n"
                 "%3 = less(%1, %1) : bool[]\n"
                 "return %3\n"
                 "}, graph lowered \"b\" {\n"
                 "%1 = parameter() {dtype = i64, shape = shape[], index = 0} "
                 ": i64[]\n"
                 "%2 = parameter() {dtype = variant, shape = shape[], index = "
                 "1} : variant[]\n"
                 "%3 = stack_push(%2, %1) : variant[]\n"
                 "return %1, %3\n"
                 "}) : i64[], variant[]\n"
                 "return %3:0\n"
                 "}\n",
                 (ls_hlo_program){.num_devices = 1}, &module),
      LS_UNIMPLEMENTED,
      "(stack_new): its size has no bound: loops that push "
      "need max_trips, or count to a constant (at graph text:3)");
}

MEMORY_TEST(write_replicas) {
  for (int32_t devices = 1; devices <= 2; ++devices)
    for (int exact = 0; exact < 2; ++exact) {
      LS_OWN(ls_arena, memory) = {0};
      LS_OWN(ls_text, text) = {0};
      ls_hlo_layout layout;
      ls_arena_init(&memory, ls_runtime_allocator(ls_runtime_current()));
      ls_text_init(&text, ls_runtime_allocator(ls_runtime_current()));
      LS_RETURN_IF_ERROR(write_program(
          replicas_text,
          (ls_hlo_program){.num_devices = devices, .exact = exact != 0},
          &memory, &text, &layout));
    }
  return ls_ok();
}

TEST(operands_of_products_are_rounded_to_bf16) {
  static const char product[] =
      "graph lowered \"t\" {\n"
      "%1 = parameter() {dtype = f32, shape = shape[2, 3], index = 0} : "
      "f32[2,3]\n"
      "%2 = parameter() {dtype = f32, shape = shape[3, 4], index = 1} : "
      "f32[3,4]\n"
      "%3 = matmul(%1, %2) : f32[2,4]\n"
      "return %3\n"
      "}\n";
  for (int bf16 = 0; bf16 < 2; ++bf16) {
    LS_OWN(written, w) = {0};
    expect_ok(write_text(
        product, (ls_hlo_program){.num_devices = 1, .bf16 = bf16 == 1}, &w));
    assert_int_equal(
        strstr(ls_text_data(&w.text),
               "(tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>") !=
            NULL,
        bf16);
  }
}

TEST(an_empty_slice_begins_in_its_operand) {
  LS_OWN(written, w) = {0};
  expect_ok(write_text(
      "graph lowered \"t\" {\n"
      "%1 = parameter() {dtype = f32, shape = shape[3], index = 0} : f32[3]\n"
      "%2 = slice(%1) {starts = [4], limits = [8], strides = [1], clamp = true}"
      " : f32[0]\n"
      "return %2\n"
      "}\n",
      (ls_hlo_program){.num_devices = 1}, &w));
  assert_null(strstr(ls_text_data(&w.text), "[4:4:1]"));
  assert_non_null(strstr(ls_text_data(&w.text), "[0:0:1]"));
}

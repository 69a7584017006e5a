// SPDX-License-Identifier: Apache-2.0
//
// Event files, read back field by field.
#include "lockstep/events.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "formats/images/image.h"
#include "graph/own.h"
#include "lockstep/eager.h"
#include "lockstep/image.h"
#include "lockstep/lockstep.h"
#include "support/event_files.h"
#include "support/fault.h"
#include "support/function.h"

static ls_event_writer *writer_of(ls_event_writer_options options) {
  ls_event_writer *writer = NULL;
  options.folder = "events";
  expect_ok(ls_event_writer_open(&options, &writer));
  return writer;
}

static ls_array *array_of(ls_dtype dtype, ls_shape shape, const void *data) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(dtype, shape, data, &array));
  return array;
}

// ---- Files -----------------------------------------------------------------
TEST(a_file_begins_with_its_version_and_where_the_run_does) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  assert_null(event_files_nth(&s, 0));  // Nothing was written.
  expect_ok(ls_event_writer_scalar(writer, "loss", 7, 0.25));
  assert_null(event_files_nth(&s, 0));
  expect_ok(ls_event_writer_flush(writer));
  assert_int_equal(event_files_read(&s, 0), 3);
  assert_non_null(strstr(event_files_nth(&s, 0)->path,
                         "events/events.out.tfevents.1700000000."));
  assert_true(proto_is(PROTO_AT(s.events[0], 3), "brain.Event:2"));
  assert_true(proto_f64(s.events[0], 1) == 1700000000.5);
  assert_int_equal(proto_i64(PROTO_AT(s.events[1], 7), 1), 1);  // START.
  assert_int_equal(proto_i64(s.events[1], 2), 0);
  const ls_bytes value = event_value(s.events, 3, "loss", 7);
  assert_true(proto_f64(value, 2) == 0.25);
  expect_ok(ls_event_writer_close(writer));
  assert_int_equal(event_files_read(&s, 0), 3);
}

TEST(a_later_writer_has_a_file_that_is_read_later) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  for (int i = 0; i < 3; ++i) {
    // The clock goes back: the second is taken after all.
    s.nanos -= INT64_C(7000000000) * i;
    ls_event_writer *writer =
        writer_of((ls_event_writer_options){.first_step = 100 * i});
    expect_ok(ls_event_writer_scalar(writer, "x", 100 * i, i));
    expect_ok(ls_event_writer_close(writer));
  }
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(event_files_read(&s, (size_t)i), 3);
    assert_int_equal(proto_i64(s.events[1], 2), 100 * i);
    assert_true(proto_f64(event_value(s.events, 3, "x", 100 * i), 2) == i);
  }
}

TEST(records_are_written_when_they_are_old_or_many) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer =
      writer_of((ls_event_writer_options){.flush_seconds = LS_SOME(3)});
  expect_ok(ls_event_writer_scalar(writer, "x", 1, 1));
  s.nanos += INT64_C(2999999999);
  expect_ok(ls_event_writer_scalar(writer, "x", 2, 1));
  assert_null(event_files_nth(&s, 0));
  s.nanos += 1;
  expect_ok(ls_event_writer_scalar(writer, "x", 3, 1));
  assert_int_equal(event_files_read(&s, 0), 5);
  static char text[(1 << 20) + 1];
  memset(text, 'a', sizeof(text) - 1);
  expect_ok(ls_event_writer_text(writer, "long", 4, text));
  assert_int_equal(event_files_read(&s, 0), 6);
  expect_ok(ls_event_writer_close(writer));

  writer = writer_of((ls_event_writer_options){.flush_seconds = LS_SOME(0)});
  expect_ok(ls_event_writer_scalar(writer, "x", 1, 1));
  assert_int_equal(event_files_read(&s, 1), 3);
  expect_ok(ls_event_writer_close(writer));
  expect_status(
      ls_event_writer_open(
          &(ls_event_writer_options){"events", .flush_seconds = LS_SOME(-1)},
          &writer),
      LS_INVALID_ARGUMENT, "flush_seconds is -1");
}

TEST(a_file_that_could_not_be_written_is_left_behind) {
  for (int at = 1; at <= 5; ++at) {
    LS_OWN_BEGUN(event_files, s, event_files_begin);
    ls_event_writer *writer =
        writer_of((ls_event_writer_options){.first_step = 9});
    s.files.fail_at = at;  // A folder, a list, a head, a record; then another.
    ls_status status = ls_event_writer_scalar(writer, "x", 10, 1);
    if (ls_status_is_ok(status)) status = ls_event_writer_flush(writer);
    const bool failed = !ls_status_is_ok(status);
    assert_int_equal(failed, at < 5);
    ls_status_free(status);
    expect_status(ls_event_writer_scalar(writer, "x", 11, 2), LS_OK, "");
    status = ls_event_writer_flush(writer);
    expect_status(status, at < 5 ? LS_OK : LS_UNAVAILABLE,
                  at < 5 ? "" : "append");
    expect_ok(ls_event_writer_scalar(writer, "x", 12, 3));
    expect_ok(ls_event_writer_close(writer));
    // What was written well is whole, and no start stands behind it.
    size_t starts = 0, values = 0;
    for (size_t file = 0; event_files_nth(&s, file) != NULL; ++file) {
      const size_t count = event_files_read(&s, file);
      for (size_t i = 0; i < count; ++i) {
        proto_field field;
        starts += proto_find(s.events[i], 7, 0, &field);
        values += proto_find(s.events[i], 5, 0, &field);
      }
    }
    assert_int_equal(values, 2);
    assert_int_equal(starts, 1);
  }
}

TEST(a_cut_record_is_the_last_that_is_read) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  for (int i = 0; i < 20; ++i)
    expect_ok(ls_event_writer_scalar(writer, "x", i, i));
  expect_ok(ls_event_writer_close(writer));
  const memory_file *file = event_files_nth(&s, 0);
  size_t last = 0;
  for (size_t size = 0; size <= file->size; ++size) {
    const size_t count =
        event_records(file->data, size, s.events, EVENT_FILES_MOST);
    assert_true(count == last || count == last + 1);
    last = count;
  }
  assert_int_equal(last, 22);
}

// ---- Values ----------------------------------------------------------------
TEST(bytes_that_are_no_text_become_text) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  expect_ok(ls_event_writer_scalar(writer, "a\xff\xc3\xa4\xe2\x82", 1, NAN));
  expect_ok(ls_event_writer_scalar(writer, "", -5, -INFINITY));
  expect_ok(ls_event_writer_flush(writer));
  assert_int_equal(event_files_read(&s, 0), 4);
  const ls_bytes odd = event_value(
      s.events, 4, "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd", 1);
  assert_true(isnan(proto_f64(odd, 2)));
  assert_true(proto_f64(event_value(s.events, 4, "", -5), 2) == -INFINITY);
  expect_ok(ls_event_writer_close(writer));
}

static double packed(ls_bytes list, size_t index) {
  double value;
  assert_true(8 * index + 8 <= list.size);
  memcpy(&value, list.data + 8 * index, 8);
  return value;
}

// As TensorFlow's types are numbered; elements of 8, 16 and 3 bytes.
TEST(a_tensor_is_written_as_it_is) {
  const ls_bytes texts[] = {{"red", 3}, {"", 0}, {"gr\0n", 4}};
  static const struct {
    ls_dtype dtype;
    int type, rank;
    int64_t size[2];
  } rows[] = {{LS_DTYPE_F32, 1, 2, {2, 3}}, {LS_DTYPE_F64, 2, 1, {4}},
              {LS_DTYPE_I32, 3, 2, {3, 1}}, {LS_DTYPE_I64, 9, 0, {0}},
              {LS_DTYPE_U8, 4, 1, {5}},     {LS_DTYPE_BOOL, 10, 1, {2}},
              {LS_DTYPE_F16, 19, 1, {3}},   {LS_DTYPE_BF16, 14, 1, {3}},
              {LS_DTYPE_C64, 8, 1, {2}},    {LS_DTYPE_F32, 1, 2, {0, 7}},
              {LS_DTYPE_STRING, 7, 1, {3}}};
  static const unsigned char bytes[64] = {1, 0, 1, 77, 200};
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer =
      writer_of((ls_event_writer_options){.flush_seconds = LS_SOME(0)});
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_shape shape = {.rank = rows[i].rank};
    for (int k = 0; k < shape.rank; ++k)
      shape.dim[k] = rows[i].size[k];
    const bool is_text = rows[i].dtype == LS_DTYPE_STRING;
    LS_OWN(ls_array, array) =
        array_of(rows[i].dtype, shape, is_text ? (const void *)texts : bytes);
    const int64_t step = (int64_t)i;
    expect_ok(ls_event_writer_tensor(writer, "t", step, array));
    const size_t count = event_files_read(&s, 0);
    const ls_bytes tensor =
        PROTO_AT(event_value(s.events, count, "t", step), 8);
    assert_int_equal(proto_i64(tensor, 1), rows[i].type);
    proto_field field;
    for (int k = 0; k < shape.rank; ++k) {
      assert_true(proto_find(PROTO_AT(tensor, 2), 2, (size_t)k, &field));
      assert_int_equal(proto_i64(field.bytes, 1), shape.dim[k]);
    }
    assert_false(
        proto_find(PROTO_AT(tensor, 2), 2, (size_t)shape.rank, &field));
    if (!is_text) {
      const ls_bytes content = PROTO_AT(tensor, 4);
      assert_int_equal(content.size, ls_array_size(array));
      if (content.size > 0)
        assert_memory_equal(content.data, bytes, content.size);
    } else {
      for (size_t k = 0; k < 3; ++k) {
        assert_true(proto_find(tensor, 8, k, &field));
        assert_int_equal(field.bytes.size, texts[k].size);
        if (field.bytes.size > 0)
          assert_memory_equal(field.bytes.data, texts[k].data, texts[k].size);
      }
    }
  }
  expect_ok(ls_event_writer_close(writer));
}

// A Summary of others: a number, and a tensor with its plugin.
TEST(a_summarys_values_are_written_under_our_tags) {
  static const char summary[] =
      "\x0a\x09\x0a\x02xy\x15\x00\x00\x00\x40"  // "xy": 2
      "\x0a\x0c\x42\x02\x08\x01\x4a\x02\x0a\x00\x0a\x02xy";
  static const struct {
    const char *data;
    size_t size;
  } none[] = {{"", 0},
              {"hello", 5},
              {summary, sizeof(summary) - 2},  // Cut off.
              {"\x0a\x04\x0a\x02xy", 6},       // A tag alone.
              {"\x0a\x02\x50\x01", 4},         // A field that none has.
              {"\x12\x00", 2},
              {"\nhello", 6}};
  size_t count = 7;
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer =
      writer_of((ls_event_writer_options){.flush_seconds = LS_SOME(0)});
  for (size_t i = 0; i < LS_COUNT_OF(none); ++i) {
    expect_ok(ls_event_writer_summary(
        writer, "s", 1, 0, (ls_bytes){none[i].data, none[i].size}, &count));
    assert_int_equal(count, 0);
  }
  expect_ok(ls_event_writer_summary(
      writer, "s", 1, 3, (ls_bytes){summary, sizeof(summary) - 1}, &count));
  assert_int_equal(count, 2);
  const size_t events = event_files_read(&s, 0);
  assert_true(proto_f64(event_value(s.events, events, "s/3", 1), 2) == 2);
  const ls_bytes second = event_value(s.events, events, "s/4", 1);
  assert_int_equal(proto_i64(PROTO_AT(second, 8), 1), 1);
  assert_int_equal(PROTO_AT(second, 9, 1).size, 0);
  expect_ok(ls_event_writer_close(writer));
}

static ls_bytes histogram_at(event_files *s, int64_t step) {
  const size_t count = event_files_read(s, 0);
  return PROTO_AT(event_value(s->events, count, "h", step), 5);
}

TEST(a_histogram_counts_what_is_finite) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer =
      writer_of((ls_event_writer_options){.flush_seconds = LS_SOME(0)});
  float values[3002];
  for (int i = 0; i < 3000; ++i)
    values[i] = (float)i / 100;  // 100 a range, but for rounding.
  values[3000] = NAN;
  values[3001] = -INFINITY;
  ls_array *array = array_of(LS_DTYPE_F32, LS_SHAPE(2, 1501), values);
  expect_ok(ls_event_writer_histogram(writer, "h", 1, array));
  ls_bytes found = histogram_at(&s, 1);
  assert_true(proto_f64(found, 1) == 0 && proto_f64(found, 3) == 3000);
  assert_true(proto_f64(found, 2) == (double)29.99f);
  assert_true(fabs(proto_f64(found, 4) - 44985) < 0.1);
  assert_true(fabs(proto_f64(found, 5) / 899550.05 - 1) < 1e-4);
  const ls_bytes limits = PROTO_AT(found, 6), counts = PROTO_AT(found, 7);
  assert_int_equal(limits.size, 240);
  assert_int_equal(counts.size, 240);
  double sum = 0;
  for (size_t i = 0; i < 30; ++i) {
    assert_true(fabs(packed(counts, i) - 100) <= 1);
    assert_true(fabs(packed(limits, i) - 0.99967 * (double)(i + 1)) < 1e-3);
    sum += packed(counts, i);
  }
  assert_true(sum == 3000 && packed(limits, 29) == (double)29.99f);
  ls_array_release(array);

  // One value, none, and a width beyond all numbers are one range.
  const double one[] = {3, 3}, none[] = {NAN}, wide[] = {-1e308, 1.7e308};
  const struct {
    const double *values;
    int64_t count;
    double want, least, most;
  } rows[] = {
      {one, 2, 2, 3, 3}, {none, 1, 0, 0, 0}, {wide, 2, 2, -1e308, 1.7e308}};
  for (int i = 0; i < 3; ++i) {
    array = array_of(LS_DTYPE_F64, LS_SHAPE(rows[i].count), rows[i].values);
    expect_ok(ls_event_writer_histogram(writer, "h", 2 + i, array));
    found = histogram_at(&s, 2 + i);
    assert_int_equal(PROTO_AT(found, 7).size, 8);
    assert_true(packed(PROTO_AT(found, 7), 0) == rows[i].want);
    assert_true(packed(PROTO_AT(found, 6), 0) == rows[i].most);
    assert_true(proto_f64(found, 1) == rows[i].least);
    ls_array_release(array);
  }
  array = array_of(LS_DTYPE_C64, LS_SCALAR, (float[]){1, 2});
  expect_status(ls_event_writer_histogram(writer, "h", 9, array),
                LS_INVALID_ARGUMENT, "histogram 'h' is of c64[]");
  ls_array_release(array);
  expect_ok(ls_event_writer_close(writer));
}

// The nth string of a value's tensor.
static ls_bytes string_at(ls_bytes value, size_t nth) {
  proto_field field;
  const ls_bytes tensor = PROTO_AT(value, 8);
  assert_int_equal(proto_i64(tensor, 1), 7);
  assert_true(proto_find(tensor, 8, nth, &field));
  return field.bytes;
}

static void expect_pixels(ls_bytes png, ls_dtype dtype, const void *want,
                          size_t size) {
  ls_array *image = NULL;
  const ls_status status = ls_decode_image(
      png.data, png.size, &(ls_image_options){.dtype = dtype}, &image);
  if (ls_status_code(status) == LS_UNIMPLEMENTED) {  // Built without libpng.
    ls_status_free(status);
    return;
  }
  expect_ok(status);
  assert_int_equal(ls_array_size(image), size);
  assert_memory_equal(ls_array_data(image), want, size);
  ls_array_release(image);
}

TEST(images_are_png_files) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  unsigned char bytes[2 * 3 * 2 * 3];
  for (size_t i = 0; i < sizeof(bytes); ++i)
    bytes[i] = (unsigned char)(i * 7);
  const float floats[] = {-1, 0, 0.5f, 1, 2, NAN};
  const uint16_t words[] = {1, 65535, 300};
  ls_array *arrays[] = {
      array_of(LS_DTYPE_U8, LS_SHAPE(2, 3, 2, 3), bytes),
      array_of(LS_DTYPE_F32, LS_SHAPE(2, 3, 1), floats),
      array_of(LS_DTYPE_U16, LS_SHAPE(1, 3, 1), words),
      array_of(LS_DTYPE_U8, LS_SHAPE(2, 18), bytes),
      array_of(LS_DTYPE_I32, LS_SHAPE(1, 1, 1), (int32_t[]){0})};
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_event_writer_image(writer, "i", i, arrays[i]));
  expect_status(ls_event_writer_image(writer, "i", 3, arrays[3]),
                LS_INVALID_ARGUMENT, "image 'i' is u8[2,18], expected");
  expect_status(ls_event_writer_image(writer, "i", 3, arrays[4]),
                LS_INVALID_ARGUMENT, "image 'i' is i32[1,1,1], expected");
  expect_ok(ls_event_writer_close(writer));
  assert_int_equal(event_files_read(&s, 0), 5);
  ls_bytes value = event_value(s.events, 5, "i", 0);
  assert_true(proto_is(PROTO_AT(value, 9, 1, 1), "images"));
  assert_true(proto_is(string_at(value, 0), "2"));  // The width.
  assert_true(proto_is(string_at(value, 1), "3"));
  expect_pixels(string_at(value, 2), LS_DTYPE_U8, bytes, 18);
  expect_pixels(string_at(value, 3), LS_DTYPE_U8, bytes + 18, 18);
  value = event_value(s.events, 5, "i", 1);
  const unsigned char want[] = {0, 0, 128, 255, 255, 0};
  expect_pixels(string_at(value, 2), LS_DTYPE_U8, want, sizeof(want));
  value = event_value(s.events, 5, "i", 2);
  expect_pixels(string_at(value, 2), LS_DTYPE_U16, words, sizeof(words));
  for (int i = 0; i < 5; ++i)
    ls_array_release(arrays[i]);
}

// ---- Graphs ----------------------------------------------------------------
static ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 3)));
}

// Adds a value from outside.
static ls_nest add_outside(ls_nest values, void *user) {
  return ls_leaf(ls_add(ls_nest_tensor(values, 0), *(const ls_tensor *)user));
}

// The node of a name.
static ls_bytes node_of(ls_bytes graph, const char *name) {
  proto_field node;
  for (size_t i = 0; proto_find(graph, 1, i, &node); ++i)
    if (proto_is(PROTO_AT(node.bytes, 1), name)) return node.bytes;
  for (size_t i = 0; proto_find(graph, 1, i, &node); ++i) {
    const ls_bytes has = PROTO_AT(node.bytes, 1);
    print_error("node '%.*s'\n", (int)has.size, has.data);
  }
  fail_msg("there is no node '%s'", name);
  return (ls_bytes){0};
}

static bool has_input(ls_bytes node, const char *name) {
  proto_field input;
  for (size_t i = 0; proto_find(node, 3, i, &input); ++i)
    if (proto_is(input.bytes, name)) return true;
  return false;
}

static ls_bytes attr_of(ls_bytes node, const char *key) {
  proto_field attr;
  for (size_t i = 0; proto_find(node, 5, i, &attr); ++i)
    if (proto_is(PROTO_AT(attr.bytes, 1), key)) return PROTO_AT(attr.bytes, 2);
  fail_msg("there is no attribute '%s'", key);
  return (ls_bytes){0};
}

TEST(a_graph_has_its_scopes_shapes_and_devices) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x =
        ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 3), "x");
    LS_NAME_SCOPE("layer");
    LS_DEVICE_SCOPE("/cpu:0");
    const ls_tensor y = ls_exp(x);
    const ls_op before[] = {ls_tensor_op(y)};
    LS_CONTROL_SCOPE(before, 1);
    ls_reduce_sum(x, LS_AXES(1));
  }
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  expect_ok(ls_event_writer_graph(writer, graph));
  expect_status(ls_event_writer_graph(writer, ls_graph_current()),
                LS_FAILED_PRECONDITION, "eager");
  expect_ok(ls_event_writer_close(writer));
  assert_int_equal(event_files_read(&s, 0), 3);
  const ls_bytes found = PROTO_AT(s.events[2], 4);
  assert_true(proto_i64(PROTO_AT(found, 4), 1) > 0);
  const ls_bytes node = node_of(found, "layer/exp");
  assert_true(proto_is(PROTO_AT(node, 2), "exp"));
  assert_true(proto_is(PROTO_AT(node, 4), "/device:CPU:0"));
  assert_true(has_input(node, "x"));
  assert_int_equal(proto_i64(attr_of(node, "T"), 6), 1);
  const ls_bytes shape = PROTO_AT(attr_of(node, "_output_shapes"), 1, 7);
  proto_field size;
  assert_true(proto_find(shape, 2, 0, &size));
  assert_int_equal(proto_i64(size.bytes, 1), -1);
  assert_true(proto_find(shape, 2, 1, &size));
  assert_int_equal(proto_i64(size.bytes, 1), 3);
  assert_true(has_input(node_of(found, "layer/reduce_sum"), "^layer/exp"));
}

TEST(what_a_loop_holds_stands_in_its_scope) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "x");
    const ls_tensor y = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "y");
    LS_OWN(ls_nest, made) =
        ls_while(below_three, add_outside, &x, ls_leaf(y), 0);
  }
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  expect_ok(ls_event_writer_graph(writer, graph));
  expect_ok(ls_event_writer_close(writer));
  assert_int_equal(event_files_read(&s, 0), 3);
  const ls_bytes found = PROTO_AT(s.events[2], 4);
  const ls_bytes sum = node_of(found, "while/while_body/add");
  assert_true(has_input(sum, "while/while_body/parameter"));
  assert_true(has_input(sum, "while/while_body/capture"));
  assert_true(has_input(node_of(found, "while/while_body/parameter"), "y"));
  assert_true(has_input(node_of(found, "while/while_body/capture"), "x"));
  assert_true(has_input(node_of(found, "while"), "while/while_body/add"));
  assert_true(has_input(node_of(found, "while"), "while/while_condition/less"));
  // Every input is there, and no two nodes have one name.
  proto_field node, input, other;
  for (size_t i = 0; proto_find(found, 1, i, &node); ++i) {
    for (size_t k = 0; proto_find(node.bytes, 3, k, &input); ++k) {
      char name[200];
      snprintf(name, sizeof(name), "%.*s", (int)input.bytes.size,
               input.bytes.data);
      name[strcspn(name, ":")] = '\0';
      node_of(found, name + (name[0] == '^'));
    }
    for (size_t k = 0; k < i; ++k) {
      assert_true(proto_find(found, 1, k, &other));
      const ls_bytes a = PROTO_AT(node.bytes, 1), b = PROTO_AT(other.bytes, 1);
      assert_false(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
    }
  }
}

// ---- Summaries -------------------------------------------------------------
TEST(summaries_become_what_they_are) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  const ls_bytes words[] = {{"a", 1}, {"*b*", 3}};
  ls_array *arrays[] = {
      array_of(LS_DTYPE_I64, LS_SCALAR, (int64_t[]){-3}),
      array_of(LS_DTYPE_BOOL, LS_SHAPE(4), (bool[]){true, false, true, true}),
      array_of(LS_DTYPE_U8, LS_SHAPE(1, 2, 3), "abcdef"),
      array_of(LS_DTYPE_STRING, LS_SHAPE(2), words),
      array_of(LS_DTYPE_U8, LS_SHAPE(1, 2, 5), "abcdefghij")};
  static const char *const tags[] = {"scalar", "bools", "image", "text",
                                     "no image"};
  for (size_t i = 0; i < LS_COUNT_OF(arrays); ++i)
    ls_event_writer_record(
        writer,
        &(ls_summary_record){.tag = tags[i], .step = 4, .value = arrays[i]});
  expect_ok(ls_event_writer_flush(writer));
  assert_int_equal(event_files_read(&s, 0), 7);
  assert_true(proto_f64(event_value(s.events, 7, "scalar", 4), 2) == -3);
  assert_true(proto_f64(PROTO_AT(event_value(s.events, 7, "bools", 4), 5), 4) ==
              3);
  assert_true(proto_is(PROTO_AT(event_value(s.events, 7, "image", 4), 9, 1, 1),
                       "images"));
  const ls_bytes text = event_value(s.events, 7, "text", 4);
  assert_true(proto_is(PROTO_AT(text, 9, 1, 1), "text"));
  assert_int_equal(proto_i64(PROTO_AT(text, 8, 2, 2), 1), 2);
  assert_true(proto_is(string_at(text, 1), "*b*"));
  assert_true(
      proto_f64(PROTO_AT(event_value(s.events, 7, "no image", 4), 5), 3) == 10);
  // What goes wrong is told later, once.
  LS_OWN(ls_array, wrong) = array_of(LS_DTYPE_C64, LS_SCALAR, (float[]){1, 2});
  ls_event_writer_record(
      writer, &(ls_summary_record){.tag = "c", .step = 5, .value = wrong});
  expect_status(ls_event_writer_flush(writer), LS_INVALID_ARGUMENT,
                "histogram 'c'");
  expect_ok(ls_event_writer_flush(writer));
  ls_event_writer_record(
      writer, &(ls_summary_record){.tag = "d", .step = 5, .value = wrong});
  expect_status(ls_event_writer_close(writer), LS_INVALID_ARGUMENT,
                "histogram 'd'");
  for (size_t i = 0; i < LS_COUNT_OF(arrays); ++i)
    ls_array_release(arrays[i]);
}

TEST(a_summary_of_a_step_is_an_event) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  ls_summary_writer *summaries = NULL;
  expect_ok(
      ls_summary_writer_create(ls_event_writer_record, writer, &summaries));
  ls_summary_writer_set_step(summaries, 12);
  {
    LS_SUMMARY_SCOPE(summaries);
    LS_NAME_SCOPE("train");
    ls_summary("loss", ls_scalar(LS_DTYPE_F32, 0.5));
  }
  ls_summary_writer_release(summaries);
  expect_ok(ls_event_writer_close(writer));
  const size_t count = event_files_read(&s, 0);
  assert_true(proto_f64(event_value(s.events, count, "train/loss", 12), 2) ==
              0.5);
}

// ---- Threads and memory ----------------------------------------------------
enum { THREADS = 4, EACH = 300 };

static void *add_many(void *user) {
  ls_event_writer *writer = user;
  for (int i = 0; i < EACH; ++i) {
    expect_ok(ls_event_writer_scalar(writer, "x", i, i));
    if (i % 100 == 0) expect_ok(ls_event_writer_flush(writer));
  }
  return NULL;
}

TEST(threads_share_a_writer) {
  LS_OWN_BEGUN(event_files, s, event_files_begin);
  ls_event_writer *writer = writer_of((ls_event_writer_options){0});
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, add_many, writer), 0);
  for (int i = 0; i < THREADS; ++i)
    pthread_join(threads[i], NULL);
  expect_ok(ls_event_writer_close(writer));
  assert_int_equal(event_files_read(&s, 0), 2 + THREADS * EACH);
}

static ls_status write_all_kinds(void *user) {
  (void)user;
  ls_event_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){.folder = "all-kinds"}, &writer));
  LS_OWN(ls_array, image) = NULL;
  LS_OWN(ls_graph, graph) = NULL;
  ls_status status = ls_array_create(LS_DTYPE_F32, LS_SHAPE(2, 2, 3), &image);
  if (ls_status_is_ok(status)) status = ls_graph_create("g", &graph);
  if (ls_status_is_ok(status))
    status = ls_event_writer_image(writer, "i", 1, image);
  if (ls_status_is_ok(status))
    status = ls_event_writer_histogram(writer, "h", 1, image);
  if (ls_status_is_ok(status))
    status = ls_event_writer_text(writer, "t", 1, "text");
  if (ls_status_is_ok(status)) status = ls_event_writer_graph(writer, graph);
  return ls_status_join(status, ls_event_writer_close(writer));
}

TEST(failures_of_memory_are_survived) {
  REFUSE_EACH(write_all_kinds, NULL);
  // They left files in the system's folder.
  const ls_file_system *files = ls_file_system_system();
  ls_file_entry *entries = NULL;
  size_t count = 0;
  expect_ok(
      files->list(NULL, "all-kinds", ls_allocator_system(), &entries, &count));
  assert_true(count > 0);
  for (size_t i = 0; i < count; ++i) {
    char path[300];
    snprintf(path, sizeof(path), "all-kinds/%s", entries[i].name);
    expect_ok(files->remove(NULL, path));
  }
  expect_ok(files->remove(NULL, "all-kinds"));
  ls_release(ls_allocator_system(), entries);
}

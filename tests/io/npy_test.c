// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include <string.h>

#include "support/fault.h"
#include "support/npy_files.h"

static ls_allocator *memory(void) { return ls_current_allocator(); }

#define FILE_OF(array) array, sizeof(array) - 1

static ls_status read_bytes(const void *data, size_t size, ls_array **out) {
  LS_OWN(ls_file, file) = NULL;
  *out = NULL;
  LS_RETURN_IF_ERROR(ls_file_open_bytes(memory(), "a.npy", data, size, &file));
  return ls_npy_read(file, "a.npy", 0, file->size, out);
}

static ls_array *array_of(const void *data, size_t size) {
  ls_array *array = NULL;
  expect_ok(read_bytes(data, size, &array));
  return array;
}

static void expect_floats(ls_array *array) {
  static const double want[] = {1, 2.5, -3, 4, 5, 6};
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_F32);
  assert_true(ls_shape_equal(ls_array_shape(array), LS_SHAPE(2, 3)));
  for (int64_t i = 0; i < 6; ++i)
    assert_true(ls_array_f64(array, i) == want[i]);
  ls_array_release(array);
}

TEST(arrays_of_numpy_are_read_in_either_order) {
  expect_floats(array_of(FILE_OF(npy_floats)));
  expect_floats(array_of(FILE_OF(npy_columns)));
}

TEST(all_versions_and_byte_orders_are_read) {
  LS_OWN(ls_array, array) = array_of(FILE_OF(npy_big_endian));
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_I16);
  assert_int_equal(ls_array_i64(array, 0), 1);
  assert_int_equal(ls_array_i64(array, 1), -2);
  ls_array_release(array);
  array = array_of(FILE_OF(npy_version_3));
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_BOOL);
  assert_true(ls_shape_equal(ls_array_shape(array), LS_SHAPE(2, 1)));
  assert_int_equal(ls_array_i64(array, 0), 1);
  assert_int_equal(ls_array_i64(array, 1), 0);
  ls_array_release(array);
  array = array_of(FILE_OF(npy_scalar));
  assert_int_equal(ls_array_shape(array).rank, 0);
  assert_true(ls_array_f64(array, 0) == 0.5);
  ls_array_release(array);
  array = array_of(FILE_OF(npy_complex));
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_C64);
  const float want[] = {1, 2};
  assert_memory_equal(ls_array_data(array), want, sizeof(want));
}

TEST(bytes_of_numpy_are_strings) {
  LS_OWN(ls_array, array) = array_of(FILE_OF(npy_bytes));
  static const char *const want[] = {"one", "", "three"};
  const ls_bytes *texts = ls_array_data(array);
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_STRING);
  for (size_t i = 0; i < 3; ++i) {
    assert_int_equal(texts[i].size, strlen(want[i]));
    assert_memory_equal(texts[i].data, want[i], texts[i].size);
  }
}

// ---- Refusals --------------------------------------------------------------
// A file of version 1 with this dict and `more` zeros behind it.
static ls_status read_dict(const char *dict, size_t more) {
  char data[400] = "\x93NUMPY\x01";
  data[8] = (char)strlen(dict);
  memcpy(data + 10, dict, strlen(dict));
  LS_OWN(ls_array, array) = NULL;
  ls_status status = read_bytes(data, 10 + strlen(dict) + more, &array);
  assert_int_equal(array != NULL, ls_status_is_ok(status));
  return status;
}

TEST(dicts_are_read_as_python_does) {
  static const char *const dicts[] = {
      "{'descr':'<i4','fortran_order':False,'shape':(2,)}",
      "{ \"shape\" : ( 2 , ) , 'fortran_order' : True, 'descr': '<i4' , }\n",
      "{'descr': '=i4', 'fortran_order': False, 'shape': (2L,), }",
      "{'descr': '|i4', 'fortran_order': False, 'shape': (1, 2), }",
  };
  for (size_t i = 0; i < LS_COUNT_OF(dicts); ++i)
    expect_ok(read_dict(dicts[i], 8));
  expect_ok(
      read_dict("{'descr':'<i4','fortran_order':True,'shape':(0, 9)}", 0));
}

TEST(what_is_wrong_in_a_header_is_named) {
  static const struct {
    const char *dict;
    size_t more;
    ls_code code;
    const char *part;
  } rows[] = {
      {"[]", 0, LS_INVALID_ARGUMENT, "at byte 10, a dict should be"},
      {"{'descr' '<f4'}", 0, LS_INVALID_ARGUMENT, "byte 19, a colon"},
      {"{'descr': 4}", 0, LS_INVALID_ARGUMENT, "byte 20, a text should"},
      {"{'descr': '<f4}", 0, LS_INVALID_ARGUMENT, "a text with an end"},
      {"{'order': 4}", 0, LS_INVALID_ARGUMENT, "one of 'descr'"},
      {"{'descr': '<f4'", 0, LS_INVALID_ARGUMENT, "the end of the dict"},
      {"{'descr': '<f4'}", 0, LS_INVALID_ARGUMENT, "'shape' should be"},
      {"{'fortran_order': 1}", 0, LS_INVALID_ARGUMENT, "True or False"},
      {"{'shape': 3}", 0, LS_INVALID_ARGUMENT, "a shape"},
      {"{'shape': (-1,)}", 0, LS_INVALID_ARGUMENT, "a size"},
      {"{'shape': (1 2)}", 0, LS_INVALID_ARGUMENT, "a comma or the end"},
      {"{'shape': (99999999999999999999,)}", 0, LS_INVALID_ARGUMENT,
       "a size that can be"},
      {"{'shape': (1,1,1,1,1,1,1,1,1)}", 0, LS_INVALID_ARGUMENT,
       "more than 8 dimensions"},
      {"{'shape': (99999999,99999999,99999999)}", 0, LS_INVALID_ARGUMENT,
       "while reading 'a.npy'"},
      {"{'descr':'<f4','fortran_order':False,'shape':(2,)} x", 8,
       LS_INVALID_ARGUMENT, "nothing should be"},
      {"{'descr':'<f4','fortran_order':False,'shape':(2,)}", 7, LS_DATA_LOSS,
       "'a.npy' is cut off: its header has f32[2] of 4 bytes each, which is 8 "
       "bytes of elements; it has 7"},
      {"{'descr':'<f4','fortran_order':False,'shape':(2,)}", 9, LS_DATA_LOSS,
       "'a.npy' is too long"},
      {"{'descr':'<f4','fortran_order':False,'shape':(70368744177664,)}", 9,
       LS_DATA_LOSS, "'a.npy' is cut off"},
      {"{'descr':'|O','fortran_order':False,'shape':(2,)}", 9, LS_UNIMPLEMENTED,
       "type '|O', Python's objects"},
      {"{'descr':'|O8','fortran_order':False,'shape':(2,)}", 9,
       LS_UNIMPLEMENTED, "type '|O8', Python's objects"},
      {"{'descr':'<f16','fortran_order':False,'shape':(2,)}", 9,
       LS_UNIMPLEMENTED, "type '<f16'; floats"},
      {"{'descr':'|S0','fortran_order':False,'shape':(70368744177664,)}", 0,
       LS_UNIMPLEMENTED, "type '|S0'"},
      {"{'descr':[('a','<f4')],'fortran_order':False,'shape':(2,)}", 9,
       LS_UNIMPLEMENTED, "elements of several fields"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_status(read_dict(rows[i].dict, rows[i].more), rows[i].code,
                  rows[i].part);
  ls_array *array = NULL;
  expect_status(read_bytes(FILE_OF(npy_texts), &array), LS_UNIMPLEMENTED,
                "type '<U3', texts of UTF-32: save them as bytes");
  expect_status(read_bytes("text that is no npy", 19, &array),
                LS_INVALID_ARGUMENT, "does not begin with \\x93NUMPY");
  expect_status(read_bytes("\x93NUMPY\x04\x00    ", 12, &array),
                LS_INVALID_ARGUMENT, "version 4.0");
  expect_status(read_bytes("\x93NUMPY\x01\x00\x09\x00", 10, &array),
                LS_DATA_LOSS, "cut off in its header");
  expect_status(read_bytes("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, &array),
                LS_INVALID_ARGUMENT, "a header of 4294967295 bytes");
}

TEST(files_that_are_cut_off_are_refused_wherever) {
  for (size_t size = 0; size + 1 < sizeof(npy_floats) - 1; ++size) {
    ls_array *array = NULL;
    ls_status status = read_bytes(npy_floats, size, &array);
    assert_false(ls_status_is_ok(status));
    ls_status_free(status);
    assert_null(array);
  }
}

// ---- Writing ---------------------------------------------------------------
TEST(headers_are_written_as_numpy_does) {
  LS_OWN_BEGUN(ls_text, text, ls_text_init, memory());
  expect_ok(ls_npy_print_header(LS_DTYPE_F32, LS_SHAPE(2, 3), &text));
  assert_int_equal(text.size, 128);
  assert_memory_equal(text.data, npy_floats, 128);
  static const ls_shape shapes[] = {
      {0},
      {.rank = 1, .dim = {3}},
      {.rank = 8, .dim = {1, 1, 2, 1, 1, 1, 1, 3}}};
  for (size_t i = 0; i < LS_COUNT_OF(shapes); ++i) {
    const size_t bytes = (size_t)ls_shape_num_elements(shapes[i]) * 2;
    ls_text_clear(&text);
    expect_ok(ls_npy_print_header(LS_DTYPE_U16, shapes[i], &text));
    assert_int_equal(text.size % 64, 0);
    ls_text_append_bytes(&text, npy_floats, bytes);
    LS_OWN(ls_array, array) = array_of(text.data, text.size);
    assert_int_equal(ls_array_dtype(array), LS_DTYPE_U16);
    assert_true(ls_shape_equal(ls_array_shape(array), shapes[i]));
    assert_memory_equal(ls_array_data(array), npy_floats, bytes);
  }
  expect_status(ls_npy_print_header(LS_DTYPE_BF16, LS_SCALAR, &text),
                LS_UNIMPLEMENTED, "NumPy has no type for bf16");
}

MEMORY_TEST(read_an_npy_file) {
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(read_bytes(FILE_OF(npy_columns), &array));
  ls_array_release(array);
  LS_RETURN_IF_ERROR(read_bytes(FILE_OF(npy_bytes), &array));
  ls_array_release(array);
  LS_OWN_BEGUN(ls_text, text, ls_text_init, memory());
  const ls_status status =
      ls_npy_print_header(LS_DTYPE_F32, LS_SHAPE(2, 3), &text);
  const ls_status more = ls_text_status(&text);
  return ls_status_join(status, more);
}

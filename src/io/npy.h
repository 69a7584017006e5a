// SPDX-License-Identifier: Apache-2.0
// npy: one array in a file, as NumPy writes it. A magic, a version, a header in
// Python's words, then the elements. Of versions 1 to 3.
//
// Thread-safe.
#ifndef LS_IO_NPY_H_
#define LS_IO_NPY_H_

#include "base/files.h"
#include "base/text.h"
#include "lockstep/array.h"

// What an npy file says of itself.
typedef struct ls_npy_header {
  ls_dtype dtype;  // String for NumPy's bytes ("S8").
  ls_shape shape;
  size_t width;  // Bytes of an element in the file.
  bool swapped;  // They are in the other order than this machine's.
  bool fortran;  // The first index goes fastest, and that makes a difference.
  int64_t data_offset;  // Of the elements in the file.
} ls_npy_header;

// Reads and checks the header of the `size` bytes from `from` on, which are all
// of them: the elements are there, and nothing else. `name` is what messages
// call them.
//   LS_INVALID_ARGUMENT  no npy file, or a shape we have not.
//   LS_UNIMPLEMENTED     elements that we have not: objects, structures, texts
//                        of UTF-32, times.
//   LS_DATA_LOSS         shorter or longer than the header says.
LS_MUST_USE ls_status ls_npy_open(const ls_file *file, const char *name,
                                  int64_t from, int64_t size,
                                  ls_npy_header *out_header);

// Puts `count` elements that were read from the file in this machine's order,
// in place. Bytes of bool become 0 and 1.
void ls_npy_convert(const ls_npy_header *header, void *data, size_t count);
// The bytes of an element of type "S8": without the zeros at its end.
ls_bytes ls_npy_bytes(const ls_npy_header *header, const char *element);

// All elements, row by row whatever the file's order, as an array of the
// caller's.
LS_MUST_USE ls_status ls_npy_read_elements(const ls_file *file,
                                           const ls_npy_header *header,
                                           ls_array **out_array);
// The whole as an array of the caller's, row by row whatever the file's order.
LS_MUST_USE ls_status ls_npy_read(const ls_file *file, const char *name,
                                  int64_t from, int64_t size,
                                  ls_array **out_array);

// Appends what precedes an array's elements in a file of version 1.
//   LS_UNIMPLEMENTED  bf16, strings and what else NumPy has not.
LS_MUST_USE ls_status ls_npy_print_header(ls_dtype dtype, ls_shape shape,
                                          ls_text *out);

#endif  // LS_IO_NPY_H_

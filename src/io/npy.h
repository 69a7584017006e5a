// SPDX-License-Identifier: Apache-2.0
// npy: one array in a file, as NumPy writes it. A magic, a version, a header in
// Python syntax, then the elements. Versions 1 to 3.
//
// Thread-safe.
#ifndef LS_IO_NPY_H_
#define LS_IO_NPY_H_

#include "base/export.h"
#include "base/files.h"
#include "base/text.h"
#include "lockstep/array.h"

// Header of an npy file.
typedef struct ls_npy_header {
  ls_dtype dtype;  // String for NumPy's bytes ("S8").
  ls_shape shape;
  size_t width;         // Bytes of an element in the file.
  bool swapped;         // Byte order is not this machine's.
  bool fortran;         // Column-major order that differs from row-major.
  int64_t data_offset;  // Start of the elements in the file.
} ls_npy_header;

// Reads and checks the header of the `size` bytes from `from` on, which must
// hold exactly the elements. `name` names them in messages.
//   LS_INVALID_ARGUMENT  no npy file, or an unsupported shape.
//   LS_UNIMPLEMENTED     unsupported elements: objects, structures, texts of
//                     UTF-32, times.
//   LS_DATA_LOSS         shorter or longer than the header says.
LS_PRIVATE_API LS_MUST_USE ls_status ls_npy_open(const ls_file *file,
                                                 const char *name, int64_t from,
                                                 int64_t size,
                                                 ls_npy_header *out_header);

// Converts `count` elements that were read from the file to this machine's
// order, in place. Bytes of bool become 0 and 1.
LS_PRIVATE_API void ls_npy_convert(const ls_npy_header *header, void *data,
                                   size_t count);

// Reads all elements, in row order whatever the file's order, as an array of
// the caller's.
LS_PRIVATE_API LS_MUST_USE ls_status ls_npy_read_elements(
    const ls_file *file, const ls_npy_header *header, ls_array **out_array);
// Reads header and elements as an array of the caller's, in row order whatever
// the file's order.
LS_PRIVATE_API LS_MUST_USE ls_status ls_npy_read(const ls_file *file,
                                                 const char *name, int64_t from,
                                                 int64_t size,
                                                 ls_array **out_array);

// Appends the part of a version 1 file before an array's elements.
//   LS_UNIMPLEMENTED  bf16, strings and other types without a NumPy name.
LS_PRIVATE_API LS_MUST_USE ls_status ls_npy_print_header(ls_dtype dtype,
                                                         ls_shape shape,
                                                         ls_text *out);

#endif  // LS_IO_NPY_H_

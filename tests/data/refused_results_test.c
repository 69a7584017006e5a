// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/dataset.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"
#include "lockstep/image.h"
#include "lockstep/iterator.h"
#include "lockstep/sparse.h"
#include "support/refused.h"

TEST(refused_calls_of_dataset_leave_nothing) {
  REFUSED(ls_element_spec, ls_dataset_spec(NULL, &out));
}

TEST(refused_calls_of_files_leave_nothing) {
  REFUSED(ls_tfrecord_writer *, ls_tfrecord_writer_open(NULL, &out));
  REFUSED(ls_array *, ls_npy_parse("x", 1, &out));
  REFUSED(ls_array *, ls_npy_print(NULL, &out));
  REFUSED(ls_nest, ls_npz_parse("x", 1, 100, &out));
}

TEST(refused_calls_of_image_leave_nothing) {
  REFUSED(ls_array *, ls_decode_image(NULL, 0, NULL, &out));
  REFUSED_SHAPE(ls_image_shape(NULL, 0, NULL, &out));
}

TEST(refused_calls_of_iterator_leave_nothing) {
  REFUSED(ls_iterator *, ls_iterator_create(NULL, NULL, &out));
}

TEST(refused_calls_of_sparse_leave_nothing) {
  REFUSED(ls_leaf_spec, ls_nest_leaf_spec(ls_none(), &out));
}

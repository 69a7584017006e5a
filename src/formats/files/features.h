// SPDX-License-Identifier: Apache-2.0
// Features of tf.Examples as elements: dicts with a leaf per feature.
#ifndef LS_FORMATS_FILES_FEATURES_H_
#define LS_FORMATS_FILES_FEATURES_H_

#include "base/memory/own.h"
#include "formats/bytes/example.h"
#include "formats/files/source.h"

typedef struct ls_features ls_features;

// Copies the requested features.
//   LS_INVALID_ARGUMENT  a feature without a name, given twice, or of an
//                        unsupported type or shape.
LS_MUST_USE ls_status ls_features_create(const ls_tfrecord_feature *features,
                                         size_t count, ls_features **out);
void ls_features_destroy(ls_features *features);  // Accepts NULL.
LS_OWNED_POINTER(ls_features, ls_features_destroy)
// Returns the spec of elements: a dict of ls_nest_spec leaves.
ls_nest ls_features_spec(const ls_features *features);
void ls_features_describe(const ls_features *features, ls_text *text);

// Reads the features of an example into row `k` of rows[leaf]. All shapes must
// be known and all types plain numbers. `place` is the example's position.
//   LS_INVALID_ARGUMENT  a feature is missing, of another kind, of another
//                        number of values, or out of bounds: names file,
//                        record, feature and both values.
LS_MUST_USE ls_status ls_features_read(
    const ls_features *features, ls_fetch *fetch, const ls_record_place *place,
    ls_bytes example, const size_t *row_sizes, void *const *rows, size_t k);
// Makes an element of any features, in-out.
LS_MUST_USE ls_status ls_features_make(const ls_features *features,
                                       ls_fetch *fetch,
                                       const ls_record_place *place,
                                       ls_bytes example, ls_nest *element);

#endif  // LS_FORMATS_FILES_FEATURES_H_

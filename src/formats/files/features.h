// SPDX-License-Identifier: Apache-2.0
// Features of tf.Examples as leaves of elements, which are dicts of them.
#ifndef LS_FORMATS_FILES_FEATURES_H_
#define LS_FORMATS_FILES_FEATURES_H_

#include "base/memory/own.h"
#include "formats/bytes/example.h"
#include "formats/files/source.h"

typedef struct ls_features ls_features;

// Copies what is asked for.
//   LS_INVALID_ARGUMENT  a feature without a name, given twice, or of a type or
//                        shape that none has.
LS_MUST_USE ls_status ls_features_create(const ls_tfrecord_feature *features,
                                         size_t count, ls_features **out);
void ls_features_destroy(ls_features *features);  // NULL is fine.
LS_OWNED_POINTER(ls_features, ls_features_destroy)
// What elements are: a dict of leaves of ls_nest_spec.
ls_nest ls_features_spec(const ls_features *features);
void ls_features_describe(const ls_features *features, ls_text *text);

// The features of an example, as element `k` of what begins at rows[leaf]. All
// are of known shapes and plain numbers. `place` says where the example begins.
//   LS_INVALID_ARGUMENT  a feature is not there, of another kind, of another
//                        number of values, or out of bounds: names file,
//                        record, feature and both.
LS_MUST_USE ls_status ls_features_read(
    const ls_features *features, ls_fetch *fetch, const ls_record_place *place,
    ls_bytes example, const size_t *row_sizes, void *const *rows, size_t k);
// The same of any features, as an element, in-out.
LS_MUST_USE ls_status ls_features_make(const ls_features *features,
                                       ls_fetch *fetch,
                                       const ls_record_place *place,
                                       ls_bytes example, ls_nest *element);

#endif  // LS_FORMATS_FILES_FEATURES_H_

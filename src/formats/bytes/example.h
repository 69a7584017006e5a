// SPDX-License-Identifier: Apache-2.0
// tf.Example: features by name, each a list of bytes, of 32-bit floats or of
// 64-bit integers, encoded as protobuf. One pass over a record finds the wanted
// features without building a message.
//
// Of two features of one name the last counts, as in protobuf. A feature whose
// list is split over several messages, which no writer makes, is refused.
//
// Thread-safe, but for builders.
#ifndef LS_FORMATS_BYTES_EXAMPLE_H_
#define LS_FORMATS_BYTES_EXAMPLE_H_

#include "base/memory/own.h"
#include "base/text.h"
#include "io/protobuf/tfrecord.h"

typedef enum ls_feature_kind {
  LS_FEATURE_ABSENT,  // Absent, or present without a list.
  LS_FEATURE_BYTES,
  LS_FEATURE_FLOATS,
  LS_FEATURE_INTS,
} ls_feature_kind;

// Returns "no values", "bytes", "floats" or "integers".
const char *ls_feature_kind_name(ls_feature_kind kind);

// A feature within an example's bytes.
typedef struct ls_feature {
  ls_feature_kind kind;
  const unsigned char *list;  // The message of the feature's list.
  size_t size;
} ls_feature;

// Finds `count` features by name. `place` names the record in messages; its
// offset is that of the first byte.
//   LS_DATA_LOSS  no tf.Example: names file, record and byte.
LS_MUST_USE ls_status ls_example_find(const ls_record_place *place,
                                      const void *data, size_t size,
                                      const ls_bytes *names, size_t count,
                                      ls_feature *out_features);

// Position of a feature, for messages.
typedef struct ls_feature_place {
  const ls_record_place *record;
  const void *data;  // First byte of the example.
  ls_bytes name;
} ls_feature_place;

// Reads the values of a feature of that kind, at most `room` of them;
// `*out_count` is the number of all values. Bytes are lent from the record.
//   LS_INVALID_ARGUMENT  the feature is of another kind.
//   LS_DATA_LOSS         its bytes are damaged.
LS_MUST_USE ls_status ls_feature_bytes(const ls_feature_place *place,
                                       const ls_feature *feature, ls_bytes *out,
                                       size_t room, size_t *out_count);
LS_MUST_USE ls_status ls_feature_floats(const ls_feature_place *place,
                                        const ls_feature *feature, float *out,
                                        size_t room, size_t *out_count);
LS_MUST_USE ls_status ls_feature_ints(const ls_feature_place *place,
                                      const ls_feature *feature, int64_t *out,
                                      size_t room, size_t *out_count);

// Calls `found` for each feature, in their order; stops at a failure.
LS_MUST_USE ls_status ls_example_visit(
    const ls_record_place *place, const void *data, size_t size,
    ls_status (*found)(void *user, ls_bytes name, const ls_feature *feature),
    void *user);

// ---- Writing ---------------------------------------------------------------
// Builds one example after another, with features in the order in which they
// are added. ls_example_end reports a lack of memory.
typedef struct ls_example_builder {
  ls_text text;
  bool is_open;                           // An example has begun.
  size_t features, entry, feature, list;  // Begins of these messages.
} ls_example_builder;

void ls_example_init(ls_example_builder *builder, ls_allocator *allocator);
void ls_example_deinit(ls_example_builder *builder);
LS_OWNED_STRUCT(ls_example_builder, ls_example_deinit)
void ls_example_add_bytes(ls_example_builder *builder, const char *name,
                          const ls_bytes *values, size_t count);
void ls_example_add_floats(ls_example_builder *builder, const char *name,
                           const float *values, size_t count);
void ls_example_add_ints(ls_example_builder *builder, const char *name,
                         const int64_t *values, size_t count);
// Returns the example, lent until the next call. The next feature begins
// another one.
LS_MUST_USE ls_status ls_example_end(ls_example_builder *builder,
                                     ls_bytes *out_example);

#endif  // LS_FORMATS_BYTES_EXAMPLE_H_

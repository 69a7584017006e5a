// SPDX-License-Identifier: Apache-2.0
// Protobuf: fields, each a number with a wire type, and a value.
//   Example { Features features = 1; }
//   Features { map<string, Feature> feature = 1; }, a map being entries of {
//   key = 1; value = 2; }
//   Feature { BytesList = 1, FloatList = 2 or Int64List = 3 }
//   a list { repeated value = 1 }, numbers one by one or packed into one field.
#include "formats/bytes/example.h"

#include "io/protobuf/protobuf.h"

const char *ls_feature_kind_name(ls_feature_kind kind) {
  static const char *const names[] = {"no values", "bytes", "floats",
                                      "integers"};
  return names[kind];
}

// ---- Fields ----------------------------------------------------------------
// A message whose fields are not all read yet.
typedef struct message {
  ls_proto_input left;
  const ls_record_place *place;
  const unsigned char *data;  // First byte of the example.
} message;

static ls_status report_damage(const message *in, const unsigned char *at,
                               const char *problem) {
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' record %lld is no tf.Example: %s at byte %lld",
                   in->place->file, (long long)in->place->record, problem,
                   (long long)(in->place->offset + (at - in->data)));
}

// Ends reading fields: the last one may be damaged.
static ls_status end_fields(const message *in, const ls_proto_field *last) {
  return last->wrong == NULL ? ls_ok()
                             : report_damage(in, last->begin, last->wrong);
}

// Returns the message, or bytes, in a field.
static message example_message_in(const message *outer,
                                  const ls_proto_field *found) {
  return (message){.left = ls_proto_message(found),
                   .place = outer->place,
                   .data = outer->data};
}

// ---- Features --------------------------------------------------------------
static ls_status read_feature(message in, ls_feature *out) {
  *out = (ls_feature){0};
  ls_proto_field found = {0};
  while (ls_proto_next(&in.left, &found)) {
    if (found.number > 3 || found.type != LS_PROTO_BYTES) continue;
    if ((uint32_t)out->kind == found.number)
      return report_damage(&in, found.begin,
                           "a feature has two lists of one kind");
    *out = (ls_feature){.kind = (ls_feature_kind)found.number,
                        .list = found.at,
                        .size = (size_t)found.value};
  }
  return end_fields(&in, &found);
}

// Reads a map's entry: the name, and the feature's message.
static ls_status read_map_entry(message in, ls_bytes *out_name,
                                message *out_feature) {
  *out_name = (ls_bytes){.data = ""};
  *out_feature = (message){.place = in.place, .data = in.data};
  ls_proto_field found = {0};
  while (ls_proto_next(&in.left, &found)) {
    if (found.type != LS_PROTO_BYTES) continue;
    if (found.number == 1)
      *out_name = (ls_bytes){(const char *)found.at, (size_t)found.value};
    if (found.number != 2) continue;
    if (out_feature->left.at != NULL)
      return report_damage(&in, found.begin, "an entry has two features");
    *out_feature = example_message_in(&in, &found);
  }
  return end_fields(&in, &found);
}

typedef ls_status (*entry_function)(void *user, ls_bytes name, message feature);

static ls_status visit_entries(const ls_record_place *place, const void *data,
                               size_t size, entry_function found_entry,
                               void *user) {
  message example = {.left = {data, (const unsigned char *)data + size},
                     .place = place,
                     .data = data};
  ls_proto_field outer = {0}, found = {0};
  while (ls_proto_next(&example.left, &outer)) {
    if (outer.number != 1 || outer.type != LS_PROTO_BYTES) continue;
    message features = example_message_in(&example, &outer);
    while (ls_proto_next(&features.left, &found)) {
      if (found.number != 1 || found.type != LS_PROTO_BYTES) continue;
      ls_bytes name;
      message feature;
      LS_RETURN_IF_ERROR(read_map_entry(example_message_in(&features, &found),
                                        &name, &feature));
      LS_RETURN_IF_ERROR(found_entry(user, name, feature));
    }
    LS_RETURN_IF_ERROR(end_fields(&features, &found));
  }
  return end_fields(&example, &outer);
}

typedef struct finding {
  const ls_bytes *names;
  size_t count;
  ls_feature *features;
} finding;

static ls_status match_names(void *user, ls_bytes name, message feature) {
  const finding *self = user;
  for (size_t i = 0; i < self->count; ++i) {
    if (self->names[i].size == name.size &&
        memcmp(self->names[i].data, name.data, name.size) == 0)
      LS_RETURN_IF_ERROR(read_feature(feature, &self->features[i]));
  }
  return ls_ok();
}

ls_status ls_example_find(const ls_record_place *place, const void *data,
                          size_t size, const ls_bytes *names, size_t count,
                          ls_feature *out_features) {
  for (size_t i = 0; i < count; ++i)
    out_features[i] = (ls_feature){0};
  finding self = {names, count, out_features};
  return size == 0 ? ls_ok()
                   : visit_entries(place, data, size, match_names, &self);
}

typedef struct visiting {
  ls_status (*found)(void *user, ls_bytes name, const ls_feature *feature);
  void *user;
} visiting;

static ls_status visit_feature(void *user, ls_bytes name, message feature) {
  const visiting *self = user;
  ls_feature read;
  LS_RETURN_IF_ERROR(read_feature(feature, &read));
  return self->found(self->user, name, &read);
}

ls_status ls_example_visit(const ls_record_place *place, const void *data,
                           size_t size,
                           ls_status (*found)(void *user, ls_bytes name,
                                              const ls_feature *feature),
                           void *user) {
  visiting self = {found, user};
  return size == 0 ? ls_ok()
                   : visit_entries(place, data, size, visit_feature, &self);
}

// ---- Values ----------------------------------------------------------------
static ls_status open_list(const ls_feature_place *place,
                           const ls_feature *feature, ls_feature_kind wanted,
                           message *out) {
  *out = (message){.place = place->record, .data = place->data};
  if (feature->kind == wanted) {
    out->left = (ls_proto_input){feature->list, feature->list + feature->size};
    return ls_ok();
  }
  return ls_invalid_argument(
      LS_RECORD_FORMAT ": feature '%.*s' has %s, expected %s",
      LS_RECORD_ARGUMENTS(place->record), (int)place->name.size,
      place->name.data, ls_feature_kind_name(feature->kind),
      ls_feature_kind_name(wanted));
}

ls_status ls_feature_bytes(const ls_feature_place *place,
                           const ls_feature *feature, ls_bytes *out,
                           size_t room, size_t *out_count) {
  message in;
  *out_count = 0;
  LS_RETURN_IF_ERROR(open_list(place, feature, LS_FEATURE_BYTES, &in));
  ls_proto_field found = {0};
  while (ls_proto_next(&in.left, &found)) {
    if (found.number != 1 || found.type != LS_PROTO_BYTES) continue;
    if (*out_count < room)
      out[*out_count] = (ls_bytes){(const char *)found.at, (size_t)found.value};
    ++*out_count;
  }
  return end_fields(&in, &found);
}

// Packed floats have the layout of a little-endian machine's.
static void copy_floats(const ls_proto_field *packed, float *out, size_t room,
                        size_t *count) {
  const size_t num_packed = (size_t)packed->value / 4;
  for (size_t i = 0; i < num_packed && *count + i < room; ++i) {
    const uint32_t bits = ls_load_le32(packed->at + 4 * i);
    memcpy(out + *count + i, &bits, 4);
  }
  *count += num_packed;
}

ls_status ls_feature_floats(const ls_feature_place *place,
                            const ls_feature *feature, float *out, size_t room,
                            size_t *out_count) {
  message in;
  *out_count = 0;
  LS_RETURN_IF_ERROR(open_list(place, feature, LS_FEATURE_FLOATS, &in));
  ls_proto_field found = {0};
  while (ls_proto_next(&in.left, &found)) {
    if (found.number != 1) continue;
    if (found.type == LS_PROTO_BYTES && found.value % 4 == 0) {
      copy_floats(&found, out, room, out_count);
    } else if (found.type == LS_PROTO_FIXED_32) {
      const uint32_t bits = (uint32_t)found.value;
      if (*out_count < room) memcpy(out + *out_count, &bits, 4);
      ++*out_count;
    } else {
      return report_damage(&in, found.begin, "a float has another size");
    }
  }
  return end_fields(&in, &found);
}

ls_status ls_feature_ints(const ls_feature_place *place,
                          const ls_feature *feature, int64_t *out, size_t room,
                          size_t *out_count) {
  message in;
  *out_count = 0;
  LS_RETURN_IF_ERROR(open_list(place, feature, LS_FEATURE_INTS, &in));
  ls_proto_field found = {0};
  while (ls_proto_next(&in.left, &found)) {
    if (found.number != 1) continue;
    if (found.type == LS_PROTO_VARINT) {
      if (*out_count < room) out[*out_count] = (int64_t)found.value;
      ++*out_count;
      continue;
    }
    if (found.type != LS_PROTO_BYTES)
      return report_damage(&in, found.begin, "an integer is written otherwise");
    for (ls_proto_input packed = ls_proto_message(&found);
         packed.at < packed.end;) {
      uint64_t value = 0;
      const unsigned char *start = packed.at;
      if (!ls_proto_read_varint(&packed, &value))
        return report_damage(&in, start, "a number is cut off or too long");
      if (*out_count < room) out[*out_count] = (int64_t)value;
      ++*out_count;
    }
  }
  return end_fields(&in, &found);
}

// ---- Writing ---------------------------------------------------------------
void ls_example_init(ls_example_builder *builder, ls_allocator *allocator) {
  *builder = (ls_example_builder){0};
  ls_text_init(&builder->text, allocator);
}

void ls_example_deinit(ls_example_builder *builder) {
  ls_text_deinit(&builder->text);
}

// Begins the features of another example, unless they are begun.
static void begin_features(ls_example_builder *builder) {
  if (builder->is_open) return;
  ls_text_clear(&builder->text);
  builder->features = ls_proto_begin(&builder->text, 1);
  builder->is_open = true;
}

// Begins the list of a feature, as end_feature ends it.
static void begin_feature(ls_example_builder *builder, const char *name,
                          ls_feature_kind kind) {
  ls_text *text = &builder->text;
  begin_features(builder);
  builder->entry = ls_proto_begin(text, 1);
  ls_proto_bytes(text, 1, name, strlen(name));
  builder->feature = ls_proto_begin(text, 2);
  builder->list = ls_proto_begin(text, (unsigned)kind);
}

static void end_feature(ls_example_builder *builder) {
  ls_proto_end(&builder->text, builder->list);
  ls_proto_end(&builder->text, builder->feature);
  ls_proto_end(&builder->text, builder->entry);
}

void ls_example_add_bytes(ls_example_builder *builder, const char *name,
                          const ls_bytes *values, size_t count) {
  begin_feature(builder, name, LS_FEATURE_BYTES);
  for (size_t i = 0; i < count; ++i)
    ls_proto_bytes(&builder->text, 1, values[i].data, values[i].size);
  end_feature(builder);
}

void ls_example_add_floats(ls_example_builder *builder, const char *name,
                           const float *values, size_t count) {
  begin_feature(builder, name, LS_FEATURE_FLOATS);
  const size_t began = count > 0 ? ls_proto_begin(&builder->text, 1) : 0;
  for (size_t i = 0; i < count; ++i) {
    unsigned char bytes[4];
    uint32_t bits = 0;
    memcpy(&bits, values + i, 4);
    ls_store_le32(bytes, bits);
    ls_text_append_bytes(&builder->text, bytes, 4);
  }
  if (count > 0) ls_proto_end(&builder->text, began);
  end_feature(builder);
}

void ls_example_add_ints(ls_example_builder *builder, const char *name,
                         const int64_t *values, size_t count) {
  begin_feature(builder, name, LS_FEATURE_INTS);
  ls_proto_i64s(&builder->text, 1, values, count);
  end_feature(builder);
}

ls_status ls_example_end(ls_example_builder *builder, ls_bytes *out_example) {
  ls_text *text = &builder->text;
  begin_features(builder);
  ls_proto_end(text, builder->features);
  builder->is_open = false;
  const ls_status status = ls_text_status(text);
  *out_example = ls_status_is_ok(status) ? (ls_bytes){text->data, text->size}
                                         : (ls_bytes){0};
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// TFRecord files as data sets: plain records, or features of the tf.Examples in
// them.
#include "base/require.h"
#include "formats/bytes/offsets.h"
#include "formats/files/source.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "io/gzip.h"
#include "lockstep/element_spec.h"

typedef struct tfrecord_decoder {
  ls_record_decoder base;
  bool check;
  ls_features *features;  // NULL: elements are plain records.
} tfrecord_decoder;

// ---- Files -----------------------------------------------------------------
// A gzip file's first bytes could be a record's length; the record's checksum
// decides.
static ls_status find_packing(ls_source_file *file) {
  unsigned char head[LS_TFRECORD_HEAD] = {0};
  const size_t size = file->file->size < LS_TFRECORD_HEAD
                          ? (size_t)file->file->size
                          : LS_TFRECORD_HEAD;
  LS_RETURN_IF_ERROR(ls_file_read(file->file, 0, head, size));
  const bool is_plain =
      size == LS_TFRECORD_HEAD &&
      ls_load_le32(head + 8) == ls_crc32c_mask(ls_crc32c(0, head, 8));
  if (!is_plain && ls_gzip_is(head, size)) file->packing = LS_PACKING_GZIP;
  return ls_ok();
}

static ls_status scan_tfrecord(const ls_record_decoder *decoder,
                               ls_source_file *file) {
  (void)decoder;
  LS_RETURN_IF_ERROR(find_packing(file));
  file->count = -1;
  if (file->packing != LS_PACKING_NONE) return ls_ok();
  LS_RETURN_IF_ERROR(ls_tfrecord_scan(file->file, &file->offsets));
  file->count = ls_offsets_count(&file->offsets);
  return ls_ok();
}

// ---- Records ---------------------------------------------------------------
static ls_status open_record(const tfrecord_decoder *self,
                             const ls_record_at *at, const char *frame,
                             size_t size, ls_record_place *place,
                             ls_bytes *out) {
  *place = (ls_record_place){at->file->path, at->record, at->offset};
  *out = (ls_bytes){frame, size};
  if (at->opened) return ls_ok();
  return ls_tfrecord_open_frame(place, frame, size, self->check, out);
}

static ls_status read_tfrecord(const ls_record_decoder *decoder,
                               ls_fetch *fetch, const ls_record_at *at,
                               char *bytes, size_t size,
                               const size_t *row_sizes, void *const *rows,
                               size_t k) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  ls_record_place place;
  ls_bytes record;
  LS_RETURN_IF_ERROR(open_record(self, at, bytes, size, &place, &record));
  place.offset += LS_TFRECORD_HEAD;
  return ls_features_read(self->features, fetch, &place, record, row_sizes,
                          rows, k);
}

static ls_status make_tfrecord(const ls_record_decoder *decoder,
                               ls_fetch *fetch, const ls_record_at *at,
                               char *bytes, size_t size, ls_nest *element) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  ls_record_place place;
  ls_bytes record;
  LS_RETURN_IF_ERROR(open_record(self, at, bytes, size, &place, &record));
  if (self->features == NULL)
    return ls_element_of_bytes(record.data, record.size, element);
  place.offset += LS_TFRECORD_HEAD;
  return ls_features_make(self->features, fetch, &place, record, element);
}

static ls_status next_tfrecord(const ls_record_decoder *decoder,
                               ls_reader *reader, ls_record_at *at,
                               char **bytes, size_t *size) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  ls_record_place place = {.record = at->record};
  ls_bytes found;
  LS_RETURN_IF_ERROR(ls_tfrecord_next(reader, &place, self->check, &found));
  at->offset = place.offset;
  *bytes = (char *)(uintptr_t)found.data;
  *size = found.size;
  return ls_ok();
}

static void describe_tfrecords(const ls_record_decoder *decoder,
                               ls_text *text) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  if (self->features != NULL) ls_features_describe(self->features, text);
}

static void destroy_tfrecords(ls_record_decoder *decoder) {
  ls_features_destroy(((tfrecord_decoder *)decoder)->features);
}

static const ls_record_format tfrecord_format = {.name = "tfrecords",
                                                 .scan = scan_tfrecord,
                                                 .read = read_tfrecord,
                                                 .make = make_tfrecord,
                                                 .next = next_tfrecord,
                                                 .describe = describe_tfrecords,
                                                 .destroy = destroy_tfrecords};

static ls_status begin_tfrecords(tfrecord_decoder *self,
                                 const ls_tfrecord_options *options) {
  self->base.load = options->load;
  self->base.index_kind = options->keep_index == LS_FLAG_ON ? 2 : 0;
  self->check = options->check != LS_FLAG_OFF;
  if (options->num_features == 0) {
    self->base.spec = ls_nest_spec(LS_DTYPE_STRING, LS_SCALAR);
  } else {
    LS_RETURN_IF_ERROR(ls_features_create(
        options->features, options->num_features, &self->features));
    self->base.spec = ls_features_spec(self->features);
  }
  return ls_nest_status(self->base.spec);
}

ls_dataset *ls_dataset_tfrecords(const char *const *paths, size_t num_paths,
                                 const ls_tfrecord_options *options) {
  static const ls_tfrecord_options none;
  tfrecord_decoder *decoder = (tfrecord_decoder *)ls_record_decoder_new(
      &tfrecord_format, sizeof(*decoder));
  if (decoder == NULL) return NULL;
  const ls_status status =
      begin_tfrecords(decoder, options != NULL ? options : &none);
  return ls_record_source_new(paths, num_paths, &decoder->base, status);
}

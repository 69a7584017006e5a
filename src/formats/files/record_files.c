// SPDX-License-Identifier: Apache-2.0
// Data sets of lines, of records of one size, and of file names.
#include "base/memory/own.h"
#include "base/require.h"
#include "formats/bytes/offsets.h"
#include "formats/files/source.h"
#include "io/inflate.h"
#include "lockstep/element_spec.h"

// ---- Lines -----------------------------------------------------------------
static ls_status scan_lines(const ls_record_decoder *decoder,
                            ls_source_file *file) {
  (void)decoder;
  unsigned char head[2] = {0};
  if (file->file->size >= 2)
    LS_RETURN_IF_ERROR(ls_file_read(file->file, 0, head, sizeof(head)));
  if (ls_gzip_is(head, sizeof(head))) {
    file->packing = LS_PACKING_GZIP;
    file->count = -1;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_lines_scan(file->file, &file->offsets));
  file->count = ls_offsets_count(&file->offsets);
  return ls_ok();
}

static ls_status next_line(const ls_record_decoder *decoder, ls_reader *reader,
                           ls_record_at *at, char **bytes, size_t *size) {
  (void)decoder;
  ls_bytes line;
  at->offset = reader->position;
  LS_RETURN_IF_ERROR(ls_lines_next(reader, &line));
  *bytes = (char *)(uintptr_t)line.data;
  *size = line.size;
  return ls_ok();
}

static ls_status make_line(const ls_record_decoder *decoder, ls_fetch *fetch,
                           const ls_record_at *at, char *bytes, size_t size,
                           ls_nest *element) {
  (void)decoder;
  (void)fetch;
  const ls_bytes line =
      at->opened ? (ls_bytes){bytes, size} : ls_line_trim(bytes, size);
  return ls_element_of_bytes(line.data, line.size, element);
}

static const ls_record_format lines_format = {
    .name = "lines", .scan = scan_lines, .next = next_line, .make = make_line};

ls_dataset *ls_dataset_lines(const char *const *paths, size_t num_paths,
                             const ls_lines_options *options) {
  ls_record_decoder *decoder =
      ls_record_decoder_new(&lines_format, sizeof(*decoder));
  if (decoder == NULL) return NULL;
  if (options != NULL) {
    decoder->index_kind = options->keep_index == LS_FLAG_ON ? 1 : 0;
    decoder->load = options->load;
  }
  decoder->spec = ls_nest_spec(LS_DTYPE_STRING, LS_SCALAR);
  return ls_record_source_new(paths, num_paths, decoder,
                              ls_nest_status(decoder->spec));
}

// ---- Records of one size ---------------------------------------------------
typedef struct fixed_decoder {
  ls_record_decoder base;
  ls_records_options options;
} fixed_decoder;

static ls_status scan_records(const ls_record_decoder *decoder,
                              ls_source_file *file) {
  const ls_records_options *o = &((const fixed_decoder *)decoder)->options;
  const int64_t size = file->file->size;
  const bool has_ends = o->header <= size && o->footer <= size - o->header;
  const int64_t left = has_ends ? size - o->header - o->footer : -1;
  if (left < 0 || left % o->size != 0) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' has %lld bytes: without %lld at its start and %lld "
                     "at its end that is no whole number of records of %lld",
                     file->file->path, (long long)size, (long long)o->header,
                     (long long)o->footer, (long long)o->size);
  }
  file->count = left / o->size;
  file->offsets.first = o->header;
  file->offsets.step = o->size;
  return ls_ok();
}

static ls_status read_record(const ls_record_decoder *decoder, ls_fetch *fetch,
                             const ls_record_at *at, char *bytes, size_t size,
                             const size_t *row_sizes, void *const *rows,
                             size_t k) {
  (void)decoder;
  (void)fetch;
  (void)at;
  memcpy((char *)rows[0] + k * row_sizes[0], bytes, size);
  return ls_ok();
}

static void describe_records(const ls_record_decoder *decoder, ls_text *text) {
  const ls_records_options *o = &((const fixed_decoder *)decoder)->options;
  ls_text_append_format(text, ", size=%lld, header=%lld, footer=%lld",
                        (long long)o->size, (long long)o->header,
                        (long long)o->footer);
}

static const ls_record_format fixed_format = {.name = "records",
                                              .scan = scan_records,
                                              .read = read_record,
                                              .describe = describe_records};

static ls_status record_files_check_options(const ls_records_options *options) {
  if (options->size < 1)
    return ls_invalid_argument("records of %lld bytes; at least 1",
                               (long long)options->size);
  if (options->header < 0 || options->footer < 0)
    return ls_invalid_argument("a header of %lld and a footer of %lld bytes; "
                               "at least 0",
                               (long long)options->header,
                               (long long)options->footer);
  return ls_ok();
}

ls_dataset *ls_dataset_records(const char *const *paths, size_t num_paths,
                               const ls_records_options *options) {
  fixed_decoder *decoder =
      (fixed_decoder *)ls_record_decoder_new(&fixed_format, sizeof(*decoder));
  if (decoder == NULL) return NULL;
  ls_status status = options == NULL
                         ? ls_null_argument("ls_dataset_records", "options")
                         : record_files_check_options(options);
  if (ls_status_is_ok(status)) {
    decoder->options = *options;
    decoder->base.load = options->load;
    decoder->base.spec = ls_nest_spec(LS_DTYPE_U8, LS_SHAPE(options->size));
    status = ls_nest_status(decoder->base.spec);
  }
  return ls_record_source_new(paths, num_paths, &decoder->base, status);
}

// ---- Names -----------------------------------------------------------------
static ls_status list_names(const char *pattern, ls_array **out_names) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, const char *, paths) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_source_paths(&pattern, 1, allocator, &paths, &count));
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_bytes, names, count);
  for (size_t i = 0; i < count; ++i)
    names[i] = (ls_bytes){paths[i], strlen(paths[i])};
  return ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE((int64_t)count), names,
                              out_names);
}

ls_dataset *ls_dataset_files(const char *pattern) {
  ls_array *names = NULL;
  const ls_status status = list_names(pattern, &names);
  return ls_dataset_from_arrays(ls_status_is_ok(status) ? ls_nest_array(names)
                                                        : ls_fail(status));
}

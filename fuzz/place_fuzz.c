// SPDX-License-Identifier: Apache-2.0
// Any text that is a record is a place in a data set or gives a status; a place
// that an iterator goes to is one that it saves, and goes to again; and
// whatever becomes of it, the next epoch is whole. The first byte says of which
// data set; who it is a place of is made right first, for else all would be
// refused.
#include <zlib.h>

#include "bytes_files.h"
#include "lockstep/distribute_input.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"
#include "lockstep/iterator.h"
#include "lockstep/record.h"
#include "lockstep/strategy.h"
#include "lockstep/streams.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNT = 30, STEPS = 12, MOST = 200 };

static void must(ls_status status) {
  if (!ls_status_is_ok(status)) abort();
}

// ---- Streams ---------------------------------------------------------------
static ls_status open_numbers(void *user, int64_t epoch, void **out_state) {
  (void)user;
  (void)epoch;
  *out_state = calloc(1, sizeof(int64_t));
  return *out_state == NULL ? ls_out_of_memory() : ls_ok();
}

static ls_status next_number(void *state, ls_nest *out_element) {
  int64_t *next = state;
  if (*next >= COUNT) return ls_out_of_range("no more");
  *out_element = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  ls_array_set_i64(ls_nest_as_array(*out_element), 0, (*next)++);
  return ls_ok();
}

static ls_status save_number(void *state, ls_record *record) {
  return ls_record_set_i64(record, "next", *(int64_t *)state);
}

static ls_status restore_number(void *state, const ls_record *record) {
  int64_t next = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "next", &next));
  if (next < 0) return ls_invalid_argument("before the first");
  *(int64_t *)state = next;
  return ls_ok();
}

static ls_dataset *numbers(bool saves) {
  return ls_dataset_from_generator(
      &(ls_generator_options){.element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                              .open = open_numbers,
                              .next = next_number,
                              .save = saves ? save_number : NULL,
                              .restore = saves ? restore_number : NULL,
                              .close = free});
}

static int64_t number_of(ls_nest element) {
  return ls_array_i64(ls_nest_as_array(element), 0);
}

static ls_status keep(ls_nest element, const ls_map_call *call, void *user,
                      bool *out_keep) {
  (void)call;
  (void)user;
  *out_keep = number_of(element) % 3 != 1;
  return ls_ok();
}

// Vectors of lengths that differ; some fail.
static ls_nest stretch(ls_nest element, const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  const int64_t number = number_of(element);
  if (number == 13) return ls_fail(ls_invalid_argument("refused"));
  return ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(number % 5));
}

static ls_dataset *stretched(void) {
  return ls_dataset_map(
      numbers(true),
      &(ls_map_options){.call = stretch,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1))});
}

// Indexed batches, of which some fail.
static ls_dataset *refusing(void) {
  return ls_dataset_map(
      ls_dataset_batch(ls_dataset_range(0, COUNT, 1),
                       &(ls_batch_options){.size = 1}),
      &(ls_map_options){.call = stretch,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1))});
}

static ls_dataset *count_up(ls_nest element, const ls_map_call *call,
                            void *user) {
  (void)call;
  (void)user;
  return ls_dataset_range(0, number_of(element) % 4, 1);
}

static ls_dataset *interleaved(int64_t cycle) {
  const ls_flat_options options = {.call = count_up,
                                   .result =
                                       ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                                   .cycle = cycle,
                                   .block = cycle > 0 ? 2 : 0};
  return cycle > 0 ? ls_dataset_interleave(numbers(true), &options)
                   : ls_dataset_flat_map(numbers(false), &options);
}

static ls_dataset *bucketed(void) {
  static const int64_t boundaries[] = {2, 4}, sizes[] = {3, 2, 4};
  return ls_dataset_bucket(stretched(),
                           &(ls_bucket_options){.boundaries = boundaries,
                                                .num_boundaries = 2,
                                                .sizes = sizes});
}

static ls_dataset *packed_lines(void) {
  static uint8_t packed[256];
  static uLongf size;
  static const char text[] = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
  if (size == 0) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)text,
                       .avail_in = sizeof(text) - 1,
                       .next_out = packed,
                       .avail_out = sizeof(packed)};
    if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, 0) != Z_OK) abort();
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END) abort();
    size = stream.total_out;
    deflateEnd(&stream);
  }
  bytes_files[0] = (bytes_file){"lines.gz", packed, size};
  return ls_dataset_lines((const char *const[]){"lines.gz"}, 1, NULL);
}

static ls_dataset *batches(ls_dataset *dataset, bool ids) {
  return ls_dataset_batch(dataset, &(ls_batch_options){.size = 4, .ids = ids});
}

static ls_dataset *filtered(void) {
  return ls_dataset_filter(numbers(true), &(ls_filter_options){.call = keep});
}

enum { PIPELINES = 13, DISTRIBUTED = 7 };
static ls_dataset *pipeline(int which) {
  switch (which) {
  case 0:
    return batches(ls_dataset_shuffle(ls_dataset_range(0, COUNT, 1), NULL),
                   true);
  case 1:
    return batches(filtered(), true);
  case 2:
    return ls_dataset_shuffle(ls_dataset_prefetch(numbers(false), 3),
                              &(ls_shuffle_options){.buffer = 7});
  case 3:
    return interleaved(3);
  case 4:
    return interleaved(0);
  case 5: {
    ls_dataset *both[] = {numbers(true), filtered()};
    return ls_dataset_sample(both, 2, NULL);
  }
  case 6:
    return ls_dataset_unbatch(batches(filtered(), false));
  case 7:
    return ls_dataset_window(
        numbers(true), &(ls_dataset_window_options){.size = 3, .shift = 2});
  case 8:
    return bucketed();
  case 9:
    return ls_dataset_take(
        ls_dataset_skip(
            ls_dataset_repeat(ls_dataset_cache(numbers(true), NULL), 2), 5),
        40);
  case 10:
    return ls_dataset_zip(
        LS_TUPLE(ls_nest_dataset(ls_dataset_concatenate(
                     filtered(), ls_dataset_range(0, 9, 1))),
                 ls_nest_dataset(ls_dataset_shard(numbers(true), 2, 1))));
  case 11:
    return packed_lines();
  default:
    return ls_dataset_parts(batches(stretched(), false), 3);
  }
}

// ---- One thing to read -----------------------------------------------------
// An iterator, or one of a strategy.
typedef struct place_reader {
  ls_iterator *plain;
  ls_distributed_iterator *dealt;
} place_reader;

static ls_nest distributed(int which) {
  static ls_strategy *two;
  if (two == NULL)
    must(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &two));
  const ls_input_options options[DISTRIBUTED] = {{0},
                                                 {.sharding = LS_SHARD_OFF},
                                                 {.sharding = LS_SHARD_OFF},
                                                 {.whole_elements = true},
                                                 {.round_up = true},
                                                 {0},
                                                 {.whole_elements = true}};
  ls_nest data = ls_none();
  const ls_nest leaf = ls_nest_dataset(which == 2  ? bucketed()
                                       : which < 5 ? batches(filtered(), false)
                                                   : refusing());
  must(ls_strategy_distribute_dataset_with(two, leaf, &options[which], &data));
  ls_nest_release(leaf);
  return data;
}

static place_reader open_reader(int which) {
  place_reader self = {0};
  bytes_files_runtime();
  if (which < PIPELINES) {
    ls_dataset *dataset = pipeline(which);
    must(ls_iterator_create(dataset, NULL, &self.plain));
    ls_dataset_release(dataset);
  } else {
    const ls_nest data = distributed(which - PIPELINES);
    must(ls_distributed_iterator_create(data, NULL, &self.dealt));
    ls_nest_release(data);
  }
  return self;
}

static void close_reader(place_reader *self) {
  ls_iterator_release(self->plain);
  ls_distributed_iterator_release(self->dealt);
}

static ls_status save(place_reader *self, ls_record *record) {
  return self->plain != NULL
             ? ls_iterator_save(self->plain, record)
             : ls_distributed_iterator_save(self->dealt, record);
}

static ls_status restore(place_reader *self, const ls_record *record) {
  return self->plain != NULL
             ? ls_iterator_restore(self->plain, record)
             : ls_distributed_iterator_restore(self->dealt, record);
}

static ls_status restart(place_reader *self) {
  return self->plain != NULL ? ls_iterator_restart(self->plain)
                             : ls_distributed_iterator_restart(self->dealt);
}

// How many there are, failed ones too, up to `most`.
static int read_some(place_reader *self, int most) {
  ls_nest element = ls_none();
  int count = 0;
  for (bool more = true; more && count < most; count += more) {
    const ls_status status =
        self->plain != NULL
            ? ls_iterator_next(self->plain, &element)
            : ls_distributed_iterator_next(self->dealt, &element);
    more = ls_status_code(status) != LS_OUT_OF_RANGE;
    ls_status_free(status);
  }
  ls_nest_release(element);
  return count;
}

// ---- Places ----------------------------------------------------------------
// Gives a record the names that the other one has, and those inside of it.
static void take_names(ls_record *to, const ls_record *from) {
  static const char *const inners[] = {"source", "pipeline0"};
  const char *text = NULL;
  int64_t number = 0;
  ls_status named = ls_record_get_text(from, "data", &text);
  if (ls_status_is_ok(named)) must(ls_record_set_text(to, "data", text));
  ls_status_free(named);
  static const char *const names[] = {"data_hash", "seed", "pipelines"};
  for (size_t i = 0; i < 3; ++i) {
    ls_status status = ls_record_get_i64(from, names[i], &number);
    if (ls_status_is_ok(status)) must(ls_record_set_i64(to, names[i], number));
    ls_status_free(status);
  }
  for (size_t i = 0; i < 2; ++i) {
    const ls_record *a = NULL, *b = NULL;
    ls_status first = ls_record_find(from, inners[i], &a);
    ls_status second = ls_record_find(to, inners[i], &b);
    if (a != NULL && b != NULL) take_names((ls_record *)(uintptr_t)b, a);
    ls_status_free(first);
    ls_status_free(second);
  }
}

static void go_to(int which, const ls_record *record, int whole) {
  place_reader reader = open_reader(which);
  ls_status status = restore(&reader, record);
  read_some(&reader, STEPS);
  if (ls_status_is_ok(status)) {
    ls_record *again = NULL;
    place_reader other = open_reader(which);
    must(ls_record_create(&again));
    must(save(&reader, again));
    must(restore(&other, again));
    const int left = read_some(&reader, MOST);
    if (read_some(&other, MOST) != left) abort();
    ls_record_destroy(again);
    close_reader(&other);
  }
  ls_status_free(status);
  must(restart(&reader));
  if (read_some(&reader, MOST) != whole) abort();
  close_reader(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int whole[PIPELINES + DISTRIBUTED];
  if (size == 0) return 0;
  const int which = data[0] % (PIPELINES + DISTRIBUTED);
  ls_record *record = NULL, *right = NULL;
  ls_status status =
      ls_record_from_text("fuzz", (const char *)data + 1, size - 1, &record);
  if (ls_status_is_ok(status)) {
    place_reader reader = open_reader(which);
    must(ls_record_create(&right));
    must(save(&reader, right));
    if (whole[which] == 0) whole[which] = read_some(&reader, MOST);
    take_names(record, right);
    close_reader(&reader);
    go_to(which, record, whole[which]);
  }
  ls_status_free(status);
  ls_record_destroy(right);
  ls_record_destroy(record);
  return 0;
}

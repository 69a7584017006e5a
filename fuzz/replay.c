// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without a fuzzer: over each file of its saved corpus and
// over mutations of it that are the same at every run.
//
// Linked with one fuzz/<noun>_fuzz.c, which defines LLVMFuzzerTestOneInput.
// Every input lies in a heap block of exactly its size, so that
// AddressSanitizer sees the first byte read past its end.
//
// usage: <noun>_fuzz FOLDER...   (a folder that is not there has no files)

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  LS_REPLAY_MUTATIONS = 200,      // Per file: a second for a slow parser.
  LS_REPLAY_EDITS = 6,            // Per mutation.
  LS_REPLAY_FILE_SIZE = 1 << 20,  // Larger files are no corpus.
};

typedef struct bytes {
  uint8_t *data;
  size_t size;
} bytes;

static void *must_allocate(size_t size) {
  void *memory = malloc(size > 0 ? size : 1);
  if (memory == NULL) {
    fprintf(stderr, "replay: no memory for %zu bytes\n", size);
    exit(1);
  }
  return memory;
}

// xorshift64*: the same numbers everywhere.
static uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t random_below(uint64_t *state, size_t limit) {
  return limit == 0 ? 0 : (size_t)((next_random(state) >> 16) % limit);
}

// Puts `count` bytes from `from` in place of the `gap` bytes at `at`.
static void splice(bytes *input, size_t at, size_t gap, const uint8_t *from,
                   size_t count) {
  const size_t size = input->size - gap + count;
  const bytes result = {must_allocate(size), size};
  memcpy(result.data, input->data, at);
  if (count > 0) memcpy(result.data + at, from, count);
  memcpy(result.data + at + count, input->data + at + gap,
         input->size - at - gap);
  free(input->data);
  *input = result;
}

// One small damage: what a torn write, a bad link or an attacker leaves.
static void edit(bytes *input, uint64_t *state) {
  static const uint8_t telling[] = {0,   1,   0x7f, 0x80, 0xff, ' ', '\n',
                                    '"', '[', '{',  '-',  '9',  ',', ':'};
  const size_t at = random_below(state, input->size);
  const uint8_t byte = telling[random_below(state, sizeof telling)];
  const size_t left = input->size - at;
  const size_t span = left == 0 ? 0 : 1 + random_below(state, left);
  switch (random_below(state, 6)) {
  case 0:  // A flipped bit.
    if (left > 0) input->data[at] ^= (uint8_t)(1u << random_below(state, 8));
    break;
  case 1:  // Another byte.
    if (left > 0) input->data[at] = byte;
    break;
  case 2:  // The end is missing.
    splice(input, at, left, NULL, 0);
    break;
  case 3:  // A part is missing.
    splice(input, at, span < 16 ? span : 16, NULL, 0);
    break;
  case 4:  // A byte too many.
    splice(input, at, 0, &byte, 1);
    break;
  default: {  // A part stands twice.
    const size_t count = span < 64 ? span : 64;
    uint8_t copy[64];
    memcpy(copy, input->data + at, count);
    splice(input, at, 0, copy, count);
    break;
  }
  }
}

static void run_with_mutations(const uint8_t *data, size_t size,
                               uint64_t seed) {
  uint64_t state = seed * 2 + 1;  // Never 0, where xorshift stays.
  for (int i = 0; i <= LS_REPLAY_MUTATIONS; ++i) {
    bytes input = {must_allocate(size), size};
    if (size > 0) memcpy(input.data, data, size);
    const size_t edits = i == 0 ? 0 : 1 + random_below(&state, LS_REPLAY_EDITS);
    for (size_t k = 0; k < edits; ++k)
      edit(&input, &state);
    LLVMFuzzerTestOneInput(input.data, input.size);
    free(input.data);
  }
}

static bytes read_file(const char *path) {
  bytes file = {must_allocate(LS_REPLAY_FILE_SIZE), 0};
  FILE *stream = fopen(path, "rb");
  if (stream == NULL) {
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    exit(1);
  }
  file.size = fread(file.data, 1, LS_REPLAY_FILE_SIZE, stream);
  if (ferror(stream) || fgetc(stream) != EOF) {
    fprintf(stderr, "replay: %s: unreadable, or over 1 MiB\n", path);
    exit(1);
  }
  fclose(stream);
  return file;
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

// Runs every file of `folder` in the order of names; returns how many.
static size_t replay_folder(const char *folder) {
  struct dirent **entries = NULL;
  const int count = scandir(folder, &entries, is_visible, alphasort);
  if (count < 0 && errno == ENOENT) return 0;
  if (count < 0) {
    fprintf(stderr, "replay: %s: %s\n", folder, strerror(errno));
    exit(1);
  }
  for (int i = 0; i < count; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    const bytes file = read_file(path);
    run_with_mutations(file.data, file.size, (uint64_t)i + 1);
    free(file.data);
    free(entries[i]);
  }
  free(entries);
  return (size_t)count;
}

int main(int argc, char **argv) {
  run_with_mutations(NULL, 0, 0);
  size_t files = 0;
  for (int i = 1; i < argc; ++i)
    files += replay_folder(argv[i]);
  printf("replayed %zu files and the empty one, %d mutations of each\n", files,
         LS_REPLAY_MUTATIONS);
  return 0;
}

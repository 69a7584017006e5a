// SPDX-License-Identifier: Apache-2.0
// Any bytes are an index of a file's records, or count as none; what is read is
// all there is, and rises within the file. The first byte says whether what it
// tells of the file, and its checksum, are made right first.
#include "bytes_files.h"
#include "formats/bytes/offsets.h"
#include "io/bytes.h"
#include "io/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 40, KIND = 3, OF_SIZE = 1000 };

static void make_right(uint8_t *bytes, size_t size) {
  if (size < HEAD) return;
  memcpy(bytes, "LSOFFS1\n", 8);
  ls_store_le32(bytes + 8, KIND);
  ls_store_le64(bytes + 16, OF_SIZE);
  ls_store_le64(bytes + 24, 0);
  ls_store_le64(bytes + 32, (size - HEAD) / 8);
  ls_store_le32(bytes + 12, ls_crc32c(0, bytes + 16, size - 16));
}

static void read_index(const void *data, size_t size) {
  static char of_bytes[OF_SIZE];
  ls_runtime *runtime = bytes_files_runtime();
  ls_file *of = NULL;
  ls_offsets offsets;
  bool found = false;
  bytes_files[0] = (bytes_file){"of", of_bytes, OF_SIZE};
  bytes_files[1] = (bytes_file){"of.index", data, size};
  if (!ls_status_is_ok(ls_file_open(runtime, "of", &of))) abort();
  ls_offsets_init(&offsets, ls_allocator_system());
  if (!ls_status_is_ok(
          ls_offsets_load(runtime, "of.index", of, KIND, &offsets, &found)))
    abort();
  if (!found && offsets.size != 0) abort();
  int64_t last = 0;
  for (size_t i = 0; i < offsets.size; ++i) {
    if (offsets.items[i] < last || offsets.items[i] > OF_SIZE) abort();
    last = offsets.items[i];
  }
  if (found && (size != HEAD + 8 * offsets.size ||
                ls_load_le64((const char *)data + 32) != offsets.size))
    abort();
  ls_offsets_deinit(&offsets);
  ls_file_close(of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  uint8_t *bytes = malloc(size);
  if (bytes == NULL) abort();
  memcpy(bytes, data + 1, size - 1);
  if (data[0] % 2 == 1) make_right(bytes, size - 1);
  read_index(bytes, size - 1);
  free(bytes);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: values of variables at one moment, in the layout of the file to be
// written.
//
// Taking one costs a copy, by all workers; its memory is reused for the next
// one. Another thread may compute checksums and write.
#ifndef LS_STATE_SNAPSHOT_H_
#define LS_STATE_SNAPSHOT_H_

#include "base/memory/own.h"
#include "io/safetensors.h"
#include "lockstep/saver.h"

// A snapshot. Zeroed: empty, without memory.
typedef struct ls_snapshot {
  bool sums;                      // The file gets checksums; set before taking.
  ls_safetensors_entry *entries;  // One per variable, in their order.
  size_t count;
  size_t size;        // Size of the file,
  size_t header;      // and of its header.
  size_t begin, end;  // Bytes of the file that this snapshot has.
  uint32_t header_crc;
  // The fields below are private.
  ls_allocator *allocator;
  ls_arena names;
  size_t capacity;         // Capacity of `entries`.
  const size_t *in_order;  // Numbers of entries in file order.
  char *bytes;             // The bytes from `begin` to `end`.
  size_t room;
} ls_snapshot;

// Takes what a saver saves: part number `part` of `parts` equal parts of the
// file; part number `parts` is empty.
//   errors as of ls_saver_save
LS_MUST_USE ls_status ls_snapshot_take(ls_snapshot *self, ls_runtime *runtime,
                                       const ls_saver *saver,
                                       const ls_safetensors_note *notes,
                                       size_t num_notes, size_t part,
                                       size_t parts);
// Called between written pieces, to give way to other threads.
typedef struct ls_pause {
  void (*call)(void *user);  // NULL: no pauses.
  void *user;
} ls_pause;
// Writes the part to its position in an open file; and computes the CRC-32C of
// the part of each entry, which another thread may do meanwhile.
LS_MUST_USE ls_status ls_snapshot_write(const ls_snapshot *self,
                                        const ls_file_system *files, void *file,
                                        ls_pause pause);
void ls_snapshot_sum(const ls_snapshot *self, uint32_t *crcs);
// Stores the checksums in the header of a snapshot with `sums`.
LS_MUST_USE ls_status ls_snapshot_seal(ls_snapshot *self);
// Returns where part number `part` of a file of this size begins.
size_t ls_snapshot_begin_of(size_t size, size_t part, size_t parts);
// Returns how many bytes of an entry are between `begin` and `end` of the file.
size_t ls_snapshot_overlap(const ls_safetensors_entry *entry, size_t begin,
                           size_t end);
void ls_snapshot_deinit(ls_snapshot *self);
LS_OWNED_STRUCT(ls_snapshot, ls_snapshot_deinit)

#endif  // LS_STATE_SNAPSHOT_H_

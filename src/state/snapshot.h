// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: values of variables at one moment, as the bytes of the file that
// they are to be.
//
// Taking one costs a copy, by all workers; its memory serves the next one. What
// follows, checksums and writing, may be done by another thread meanwhile.
#ifndef LS_STATE_SNAPSHOT_H_
#define LS_STATE_SNAPSHOT_H_

#include "base/memory/own.h"
#include "io/safetensors.h"
#include "lockstep/saver.h"

// Zeroed: nothing, and no memory.
typedef struct ls_snapshot {
  bool sums;  // Set before one is taken, of all parts: the file has checksums.
  ls_safetensors_entry *entries;  // In the order of the variables.
  size_t count;
  size_t size;        // Of the file,
  size_t header;      //   and of its header.
  size_t begin, end;  // The part of it that is here.
  uint32_t header_crc;
  // Private from here on.
  ls_allocator *allocator;
  ls_arena names;
  size_t capacity;         // Of `entries`.
  const size_t *in_order;  // Numbers of entries, as they follow in the file.
  char *bytes;             // Those of the part.
  size_t room;
} ls_snapshot;

// Takes what a saver saves. Of `parts` equal parts of the file it keeps number
// `part`; number `parts` is empty.
//   as ls_saver_save says
LS_MUST_USE ls_status ls_snapshot_take(ls_snapshot *self, ls_runtime *runtime,
                                       const ls_saver *saver,
                                       const ls_safetensors_note *notes,
                                       size_t num_notes, size_t part,
                                       size_t parts);
// Called between pieces that are written, to give way to others.
typedef struct ls_pause {
  void (*call)(void *user);  // NULL: nobody wants that.
  void *user;
} ls_pause;
// Writes the part where it belongs in an open file. And the CRC-32C of what the
// part has of each entry, which another thread may look for meanwhile.
LS_MUST_USE ls_status ls_snapshot_write(const ls_snapshot *self,
                                        const ls_file_system *files, void *file,
                                        ls_pause pause);
void ls_snapshot_sum(const ls_snapshot *self, uint32_t *crcs);
// Puts checksums into the header of one with `sums`.
LS_MUST_USE ls_status ls_snapshot_seal(ls_snapshot *self);
// Where part number `part` of a file of this size begins.
size_t ls_snapshot_begin_of(size_t size, size_t part, size_t parts);
// How many bytes of an entry are in the file's bytes from `begin` to `end`.
size_t ls_snapshot_overlap(const ls_safetensors_entry *entry, size_t begin,
                           size_t end);
void ls_snapshot_deinit(ls_snapshot *self);
LS_OWNED_STRUCT(ls_snapshot, ls_snapshot_deinit)

#endif  // LS_STATE_SNAPSHOT_H_

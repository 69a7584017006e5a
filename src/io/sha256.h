// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4): hashes that nobody can forge, of runs' files and data.
//
//   ls_sha256 sha;
//   ls_sha256_init(&sha);
//   ls_sha256_add(&sha, data, size);
//   ls_sha256_print(&sha, text);
#ifndef LS_IO_SHA256_H_
#define LS_IO_SHA256_H_

#include <stddef.h>
#include <stdint.h>

enum { LS_SHA256_BLOCK = 64, LS_SHA256_TEXT = 65 };

// The hash of the bytes added so far; a copy goes on by itself. Private fields.
typedef struct ls_sha256 {
  uint32_t state[8];
  uint64_t size;
  unsigned char rest[LS_SHA256_BLOCK];  // Bytes of a block that is not full.
  void (*add_blocks)(uint32_t state[8], const unsigned char *at, size_t count);
} ls_sha256;

// Begins with the processor's instructions if it has them.
void ls_sha256_init(ls_sha256 *sha);
// Begins with plain C, on any processor.
void ls_sha256_init_portable(ls_sha256 *sha);
void ls_sha256_add(ls_sha256 *sha, const void *data, size_t size);
// Prints the hash in hexadecimal; more bytes may be added afterwards.
void ls_sha256_print(const ls_sha256 *sha, char text[LS_SHA256_TEXT]);

#endif  // LS_IO_SHA256_H_

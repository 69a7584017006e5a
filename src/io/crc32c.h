// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli): the checksum of TFRecord files and of checkpoints.
//
// Thread-safe.
#ifndef LS_IO_CRC32C_H_
#define LS_IO_CRC32C_H_

#include <stddef.h>
#include <stdint.h>

#include "base/export.h"

// Returns the checksum of bytes that follow others with checksum `crc` (0 if
// there are none). Uses the processor's instruction if it has one.
LS_PRIVATE_API uint32_t ls_crc32c(uint32_t crc, const void *data, size_t size);
// Computes ls_crc32c by a table, on any processor.
uint32_t ls_crc32c_portable(uint32_t crc, const void *data, size_t size);

// Returns the checksum of concatenated bytes, from the checksums of both pieces
// and the size of the second.
uint32_t ls_crc32c_join(uint32_t first, uint32_t second, uint64_t second_size);

// Masks a checksum as TFRecord stores it: the checksum of bytes that hold their
// own checksum would be a constant.
static inline uint32_t ls_crc32c_mask(uint32_t crc) {
  return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

#endif  // LS_IO_CRC32C_H_

// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli): the checksum of TFRecord files and of checkpoints.
//
// Thread-safe.
#ifndef LS_IO_CRC32C_H_
#define LS_IO_CRC32C_H_

#include <stddef.h>
#include <stdint.h>

// The checksum of bytes that follow others whose checksum is `crc`; 0: none. By
// the processor's instruction where it has one.
uint32_t ls_crc32c(uint32_t crc, const void *data, size_t size);
// The same by a table, on any processor.
uint32_t ls_crc32c_portable(uint32_t crc, const void *data, size_t size);

// The checksum of bytes behind others: of the first ones, of the second ones
// alone, and how many those are.
uint32_t ls_crc32c_join(uint32_t first, uint32_t second, uint64_t second_size);

// As TFRecord stores them: the checksum of bytes that hold their own checksum
// would be a constant.
static inline uint32_t ls_crc32c_mask(uint32_t crc) {
  return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

#endif  // LS_IO_CRC32C_H_

// SPDX-License-Identifier: Apache-2.0
//
// The register tile of a product: LS_TILE_ROWS rows by LS_TILE_VECTORS vectors
// of accumulators, as many as the registers hold beside a row of B.

#ifndef LS_ENGINE_CPU_ISA_PRODUCT_TILE_H_
#define LS_ENGINE_CPU_ISA_PRODUCT_TILE_H_

#include "engine/cpu/isa/vec.h"

#if defined(__AVX512F__)
#define LS_TILE_ROWS 12
#define LS_TILE_VECTORS 2
// Numbers of rows of the tiles, largest first: the rest of m is cut into these.
#define LS_TILE_EACH_ROWS(X) X(12) X(8) X(4) X(3) X(2) X(1)
#else
#define LS_TILE_ROWS 6
#define LS_TILE_VECTORS 1
#define LS_TILE_EACH_ROWS(X) X(6) X(4) X(2) X(1)
#endif

#endif  // LS_ENGINE_CPU_ISA_PRODUCT_TILE_H_

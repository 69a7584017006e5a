// SPDX-License-Identifier: Apache-2.0
//
// Moves of elements: rows and columns with a stride each, in operand and
// result.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels/loops.h"

// Rows of up to SHORT bytes are moved as two words each if columns are
// adjacent, unless they are one word. Other rows of fewer columns than FEW are
// moved by a loop for their number if columns are adjacent, repeat one element
// or come from dense lines, else column by column. Columns of more bytes than
// CALLED are copied by memcpy, of more than LONG by vectors: memcpy repeats
// bytes there, which takes some processors ten times as long at some distances.
enum { FEW = 9, SHORT = 64, CALLED = 16, LONG = 2048 };
// Dense rows of one element each, of LEAST to MOST columns, are written in
// blocks of BLOCK; gcc vectorizes rows of fewer columns.
enum { LEAST = 5, MOST = 64, BLOCK = 8 };
typedef char line __attribute__((vector_size(64), aligned(1), may_alias));

// A call, so that the loops for short rows stay as they are.
static __attribute__((noinline)) void copy_long(char *o, const char *a,
                                                size_t count) {
  size_t i = (0 - (uintptr_t)o) % sizeof(line);
  memcpy(o, a, i);
  for (; i + sizeof(line) <= count; i += sizeof(line))
    *(line *)(o + i) = *(const line *)(a + i);
  memcpy(o + i, a + i, count - i);
}

typedef char half_line __attribute__((vector_size(32)));
typedef char quarter __attribute__((vector_size(16)));

// Moves rows of `bytes`, at least a word and at most two: their first word and
// their last one, which may overlap.
#define TWO_WORDS(T)                                                           \
  LS_INLINE void two_##T(char *o, const char *a, const ls_cpu_move *move,      \
                         size_t element, size_t bytes) {                       \
    const int64_t to = move->out_row * (int64_t)element;                       \
    const int64_t from = move->in_row * (int64_t)element;                      \
    for (int64_t r = 0; r < move->rows; ++r, o += to, a += from) {             \
      T first, last;                                                           \
      memcpy(&first, a, sizeof(T));                                            \
      memcpy(&last, a + bytes - sizeof(T), sizeof(T));                         \
      memcpy(o, &first, sizeof(T));                                            \
      memcpy(o + bytes - sizeof(T), &last, sizeof(T));                         \
    }                                                                          \
  }
TWO_WORDS(uint16_t)
TWO_WORDS(uint32_t)
TWO_WORDS(uint64_t)
TWO_WORDS(quarter)
TWO_WORDS(half_line)

static void move_as_words(char *o, const char *a, const ls_cpu_move *move,
                          size_t element, size_t bytes) {
  if (bytes < 4)
    two_uint16_t(o, a, move, element, bytes);
  else if (bytes < 8)
    two_uint32_t(o, a, move, element, bytes);
  else if (bytes < 16)
    two_uint64_t(o, a, move, element, bytes);
  else if (bytes < 32)
    two_quarter(o, a, move, element, bytes);
  else
    two_half_line(o, a, move, element, bytes);
}

// Steps and small numbers of columns are constants at the calls of these: such
// loops are vectorized.
#define MOVE(unused, size, T)                                                  \
  LS_INLINE void steps_##size(T *o, const T *a, int64_t count, int64_t from) { \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = a[i * from];                                                      \
  }                                                                            \
  LS_INLINE void turned_##size(T *o, const T *a, const ls_cpu_move *move,      \
                               int64_t columns) {                              \
    LS_INDEPENDENT                                                             \
    for (int64_t r = 0; r < move->rows; ++r)                                   \
      for (int64_t c = 0; c < columns; ++c)                                    \
        o[r * columns + c] = a[c * move->in_column + r];                       \
  }                                                                            \
  LS_INLINE void columns_##size(T *o, const T *a, const ls_cpu_move *move,     \
                                int64_t columns) {                             \
    if (move->in_column != 1 && move->in_row == 1 && move->out_row == columns) \
      turned_##size(o, a, move, columns);                                      \
    else if (move->in_column == 0)                                             \
      for (int64_t r = 0; r < move->rows; ++r)                                 \
        steps_##size(o + r * move->out_row, a + r * move->in_row, columns, 0); \
    else                                                                       \
      for (int64_t r = 0; r < move->rows; ++r)                                 \
        for (int64_t c = 0; c < columns; ++c)                                  \
          o[r * move->out_row + c] = a[r * move->in_row + c];                  \
  }                                                                            \
  /* A block runs over into the next row, which is written later. */           \
  static void repeat_##size(T *o, const T *a, const ls_cpu_move *move) {       \
    const int64_t columns = move->columns;                                     \
    const int64_t whole = (columns + BLOCK - 1) / BLOCK * BLOCK;               \
    int64_t left = move->rows * columns;                                       \
    for (; left >= whole; left -= columns, o += columns, a += move->in_row) {  \
      T block[BLOCK];                                                          \
      for (int64_t c = 0; c < BLOCK; ++c)                                      \
        block[c] = *a;                                                         \
      for (int64_t c = 0; c < whole; c += BLOCK)                               \
        memcpy(o + c, block, sizeof(block));                                   \
    }                                                                          \
    for (int64_t c = 0; c < left; ++c)                                         \
      o[c] = a[c / columns * move->in_row];                                    \
  }                                                                            \
  static void line_##size(T *o, const T *a, int64_t count, int64_t to,         \
                          int64_t from) {                                      \
    if (to == 1 && from == 0)                                                  \
      steps_##size(o, a, count, 0);                                            \
    else if (to == 1 && from == 1 && (size_t)count * sizeof(T) > LONG)         \
      copy_long((char *)o, (const char *)a, (size_t)count * sizeof(T));        \
    else if (to == 1 && from == 1 && (size_t)count * sizeof(T) > CALLED)       \
      memcpy(o, a, (size_t)count * sizeof(T));                                 \
    else if (to == 1 && from == 1)                                             \
      steps_##size(o, a, count, 1);                                            \
    else if (to == 1 && from == -1)                                            \
      steps_##size(o, a, count, -1);                                           \
    else if (to == 1 && from == 2)                                             \
      steps_##size(o, a, count, 2);                                            \
    else                                                                       \
      for (int64_t i = 0; i < count; ++i)                                      \
        o[i * to] = a[i * from];                                               \
  }                                                                            \
  static void move_##size(void *out, const void *in,                           \
                          const ls_cpu_move *move) {                           \
    T *o = out;                                                                \
    const T *a = in;                                                           \
    if (move->in_column == 0 && move->out_column == 1 &&                       \
        move->out_row == move->columns && move->columns >= LEAST &&            \
        move->columns <= MOST) {                                               \
      repeat_##size(o, a, move);                                               \
      return;                                                                  \
    }                                                                          \
    const size_t bytes = (size_t)move->columns * sizeof(T);                    \
    const bool is_word =                                                       \
        move->columns < FEW && bytes <= CALLED && (bytes & (bytes - 1)) == 0;  \
    if (move->in_column == 1 && move->out_column == 1 && move->rows > 1 &&     \
        !is_word && bytes <= SHORT) {                                          \
      move_as_words((char *)o, (const char *)a, move, sizeof(T), bytes);       \
      return;                                                                  \
    }                                                                          \
    const bool few = move->columns < FEW && move->rows > move->columns;        \
    const bool dense =                                                         \
        move->out_column == 1 &&                                               \
        (move->in_column == 1 || move->in_column == 0 ||                       \
         (move->in_row == 1 && move->out_row == move->columns));               \
    switch (few && dense ? move->columns : 0) {                                \
      CASES(size)                                                              \
    default:                                                                   \
      if (few)                                                                 \
        for (int64_t c = 0; c < move->columns; ++c)                            \
          line_##size(o + c * move->out_column, a + c * move->in_column,       \
                      move->rows, move->out_row, move->in_row);                \
      else                                                                     \
        for (int64_t r = 0; r < move->rows; ++r)                               \
          line_##size(o + r * move->out_row, a + r * move->in_row,             \
                      move->columns, move->out_column, move->in_column);       \
    }                                                                          \
  }
#define CASE(size, columns)                                                    \
  case columns:                                                                \
    columns_##size(o, a, move, columns);                                       \
    break;
#define CASES(size)                                                            \
  CASE(size, 2)                                                                \
  CASE(size, 3)                                                                \
  CASE(size, 4)                                                                \
  CASE(size, 5)                                                                \
  CASE(size, 6)                                                                \
  CASE(size, 7)                                                                \
  CASE(size, 8)
LS_EACH_SIZE(MOVE, )

const ls_cpu_moves LS_ISA_NAME(ls_cpu_moves) = {
    .of_size = {[1] = move_1, [2] = move_2, [4] = move_4, [8] = move_8}};

// SPDX-License-Identifier: Apache-2.0
//
// Stack switches: the machine-dependent part of fibers, without the C library.
#ifndef LS_BASE_THREADS_STACK_SWITCH_H_
#define LS_BASE_THREADS_STACK_SWITCH_H_

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define LS_STACK_IS_CONTEXT 1
#endif

// A stack that is not running: its registers are saved on it.
typedef struct ls_stack {
#if defined(LS_STACK_IS_CONTEXT)
  ucontext_t context;
#else
  void *top;
#endif
} ls_stack;

// Prepares a stack in `size` bytes of memory: the first switch to it calls
// `entry`, which never returns, with the float mode of the caller.
void ls_stack_init(ls_stack *stack, void *memory, size_t size,
                   void (*entry)(void));
// Saves the running stack in `from` and continues on `to`; returns when
// something switches to `from`. Keeps registers and float mode, not the signal
// mask.
void ls_stack_switch(ls_stack *from, ls_stack *to);

#endif  // LS_BASE_THREADS_STACK_SWITCH_H_

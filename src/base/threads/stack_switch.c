// SPDX-License-Identifier: Apache-2.0
//
// Switches stacks: pushes the registers that a call preserves, including the
// float mode, saves the stack pointer, loads the other one and pops. Machines
// other than x86-64 and AArch64 use ucontext.
#define _GNU_SOURCE
#include "base/threads/fiber.h"

#include <stdint.h>
#include <string.h>

#if defined(LS_STACK_IS_CONTEXT)
void ls_stack_init(ls_stack *stack, void *memory, size_t size,
                   void (*entry)(void)) {
  getcontext(&stack->context);
  stack->context.uc_stack.ss_sp = memory;
  stack->context.uc_stack.ss_size = size;
  stack->context.uc_link = NULL;
  makecontext(&stack->context, entry, 0);
}

void ls_stack_switch(ls_stack *from, ls_stack *to) {
  swapcontext(&from->context, &to->context);
}

#else
// Saves the stack pointer in `*from` and loads `to`.
void ls_stack_switch_to(void **from, void *to)
    __attribute__((visibility("hidden")));

// clang-format off
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".globl ls_stack_switch_to\n"
    ".hidden ls_stack_switch_to\n"
    ".type ls_stack_switch_to, @function\n"
    "ls_stack_switch_to:\n"
    "  endbr64\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  subq $8, %rsp\n"
    "  stmxcsr (%rsp)\n"
    "  fnstcw 4(%rsp)\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  ldmxcsr (%rsp)\n"
    "  fldcw 4(%rsp)\n"
    "  addq $8, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size ls_stack_switch_to, . - ls_stack_switch_to\n");
#else
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".globl ls_stack_switch_to\n"
    ".hidden ls_stack_switch_to\n"
    ".type ls_stack_switch_to, %function\n"
    "ls_stack_switch_to:\n"
    "  hint #34\n"
    "  sub sp, sp, #176\n"
    "  stp x19, x20, [sp, #0]\n"
    "  stp x21, x22, [sp, #16]\n"
    "  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n"
    "  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n"
    "  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n"
    "  stp d14, d15, [sp, #144]\n"
    "  mrs x9, fpcr\n"
    "  str x9, [sp, #160]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldr x9, [sp, #160]\n"
    "  msr fpcr, x9\n"
    "  ldp x19, x20, [sp, #0]\n"
    "  ldp x21, x22, [sp, #16]\n"
    "  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n"
    "  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n"
    "  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n"
    "  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #176\n"
    "  ret\n"
    ".size ls_stack_switch_to, . - ls_stack_switch_to\n");
#endif
// clang-format on

// The words that a switch pops, in the order of their addresses.
typedef struct first_frame {
#if defined(__x86_64__)
  uint32_t mxcsr;
  uint16_t control, unused;
  uint64_t registers[6];
  void (*entry)(void);
  uint64_t no_caller;
#else
  uint64_t registers[11];
  void (*entry)(void);
  uint64_t floats[8];
  uint64_t fpcr, unused;
#endif
} first_frame;

void ls_stack_init(ls_stack *stack, void *memory, size_t size,
                   void (*entry)(void)) {
  // At a call the stack pointer is a multiple of 16; the return address is
  // below it.
  const uintptr_t end = ((uintptr_t)memory + size) & ~(uintptr_t)15;
  first_frame frame = {.entry = entry};
#if defined(__x86_64__)
  __asm__("stmxcsr %0\n\tfnstcw %1" : "=m"(frame.mxcsr), "=m"(frame.control));
#else
  __asm__("mrs %0, fpcr" : "=r"(frame.fpcr));
#endif
  stack->top = (void *)(end - sizeof(frame));
  memcpy(stack->top, &frame, sizeof(frame));
}

void ls_stack_switch(ls_stack *from, ls_stack *to) {
  ls_stack_switch_to(&from->top, to->top);
}
#endif

! SPDX-License-Identifier: Apache-2.0
!
! examples/mpi/heat.c in Fortran: a simulation on many processes that trains a
! net on its own fields, and prints the same weights as the program in C.
!
!   mpifort lockstep.f90 heat.f90 $(pkg-config --libs lockstep)
module plates
  use mpi
  use lockstep
  implicit none
  integer, parameter :: bands = 12, rows = 4, width = 48, steps = 60, &
    cells = rows * width
  integer, parameter :: f = c_float

  ! The rows of this process's bands, and one more on each side.
  type plate
    integer :: comm, rank, ranks, first, last  ! Its bands are first + 1 .. last.
    real(f) :: now(0:width - 1, 0:bands * rows + 1) = 0
  end type

  type net
    type(c_ptr) :: hidden, output, optimizer
  end type

  interface  ! Of the system's C library: text of a number.
    integer(c_int) function strfromd(text, size, format, value) bind(c)
      import; character(kind=c_char), intent(out) :: text(*)
      integer(c_size_t), value :: size
      character(kind=c_char), intent(in) :: format(*)
      real(c_double), value :: value
    end function
  end interface

contains

  ! ---- The simulation ------------------------------------------------------
  subroutine plate_init(self)
    type(plate), intent(out) :: self
    integer :: x, y, code
    call MPI_Comm_dup(MPI_COMM_WORLD, self%comm, code)
    call MPI_Comm_rank(self%comm, self%rank, code)
    call MPI_Comm_size(self%comm, self%ranks, code)
    self%first = bands * self%rank / self%ranks
    self%last = bands * (self%rank + 1) / self%ranks
    do y = self%first * rows, self%last * rows - 1
      do x = 0, width - 1
        self%now(x, y + 1) = real(mod(x * 7 + y * 13, 17), f) / 17
      end do
    end do
  end subroutine

  subroutine exchange_borders(self)
    type(plate), intent(inout) :: self
    integer :: up, down, top, bottom, code
    up = merge(self%rank - 1, MPI_PROC_NULL, self%rank > 0)
    down = merge(self%rank + 1, MPI_PROC_NULL, self%rank + 1 < self%ranks)
    top = self%first * rows + 1
    bottom = self%last * rows
    call MPI_Sendrecv(self%now(:, top), width, MPI_REAL, up, 0, &
                      self%now(:, bottom + 1), width, MPI_REAL, down, 0, &
                      self%comm, MPI_STATUS_IGNORE, code)
    call MPI_Sendrecv(self%now(:, bottom), width, MPI_REAL, down, 1, &
                      self%now(:, top - 1), width, MPI_REAL, up, 1, &
                      self%comm, MPI_STATUS_IGNORE, code)
  end subroutine

  ! Lets heat flow for a moment, and notes each cell with its eight neighbours
  ! before, and its change.
  subroutine plate_step(self, neighbours, changes)
    type(plate), intent(inout) :: self
    real(f), intent(inout) :: neighbours(0:8, 0:bands * cells - 1), &
                              changes(0:bands * cells - 1)
    real(f) :: next(0:width - 1, 0:bands * rows + 1), cell(0:8), flow
    integer :: x, y, i, at
    next = 0
    call exchange_borders(self)
    do y = self%first * rows, self%last * rows - 1
      do x = 0, width - 1
        at = y * width + x
        do i = 0, 8
          cell(i) = self%now(mod(x + mod(i, 3) + width - 1, width), y + i / 3)
        end do
        flow = cell(1) + cell(3) + cell(5) + cell(7) - 4 * cell(4)
        neighbours(:, at) = cell
        changes(at) = flow * (0.1_f + 0.1_f * cell(4))
        next(x, y + 1) = cell(4) + changes(at)
      end do
    end do
    self%now = next
  end subroutine

  ! ---- The net -------------------------------------------------------------
  function train_step(args, user) bind(c) result(made)
    type(ls_nest), value :: args
    type(c_ptr), value :: user
    type(ls_nest) :: made
    type(net), pointer :: n
    type(ls_tensor) :: change, loss
    type(ls_op) :: done
    call c_f_pointer(user, n)
    change = ls_dense_layer_apply( &
      n%output, ls_dense_layer_apply(n%hidden, ls_nest_tensor(args, 0_c_size_t)))
    loss = ls_mean_squared_error(change, ls_nest_tensor(args, 1_c_size_t), &
                                 ls_reduction_mean)
    done = ls_optimizer_minimize(n%optimizer, loss)
    made = ls_leaf(loss)
  end function

  subroutine print_weights(self, n)
    type(plate), intent(in) :: self
    type(net), intent(in) :: n
    type(c_ptr) :: kernel
    character(kind=c_char, len=40) :: text
    integer :: i, length
    call check(ls_variable_value(ls_dense_layer_kernel(n%output), kernel))
    do i = 0, 15
      if (self%rank /= 0) exit
      length = strfromd(text, 40_c_size_t, "%a" // c_null_char, &
                        ls_array_f64(kernel, int(i, c_int64_t)))
      if (mod(i, 4) < 3) then
        write (*, '(a, 1x)', advance="no") text(:length)
      else
        write (*, '(a)') text(:length)
      end if
    end do
    call ls_array_release(kernel)
  end subroutine

  subroutine train(self)
    type(plate), intent(inout) :: self
    character(kind=c_char), target :: hidden(7), output(7)
    type(net), target :: n
    type(c_ptr) :: strategy, step
    type(ls_nest) :: fields, losses, args
    real(f), pointer :: neighbours(:, :), changes(:)
    integer :: i
    hidden = transfer("hidden" // c_null_char, hidden)
    output = transfer("output" // c_null_char, output)
    call check(ls_dense_layer_create( &
      ls_dense_options(name=c_loc(hidden), inputs=9, units=16, &
                       activation=ls_activation_relu), n%hidden))
    call check(ls_dense_layer_create( &
      ls_dense_options(name=c_loc(output), inputs=16, units=1), n%output))
    call check(ls_adam_create( &
      ls_adam_options(learning_rate=0.01_c_double), n%optimizer))
    call check(ls_mirrored_strategy_create( &
      ls_mirrored_options(num_replicas=ls_some(bands)), strategy))
    call check(ls_function_create( &
      ls_function_options(call=c_funloc(train_step), user=c_loc(n)), step))
    ! A replica reads its own band alone, so the others' rows may stay empty.
    fields = ls_tuple([ &
      ls_nest_zeros(ls_dtype_f32, ls_shape_of([bands * cells, 9])), &
      ls_nest_zeros(ls_dtype_f32, ls_shape_of([bands * cells, 1]))])
    call check(ls_nest_status(fields))
    call c_f_pointer(ls_nest_data(fields, 0_c_size_t), neighbours, &
                     [9, bands * cells])
    call c_f_pointer(ls_nest_data(fields, 1_c_size_t), changes, [bands * cells])
    do i = 1, steps
      call plate_step(self, neighbours, changes)
      call check(ls_train_split(strategy, fields, args))
      call check(ls_strategy_run(strategy, ls_traced(step), args, losses))
      call ls_nest_release(args)
    end do
    call print_weights(self, n)
    call ls_nest_release(losses)
    call ls_nest_release(fields)
    call ls_function_release(step)
    call ls_strategy_release(strategy)
    call ls_optimizer_release(n%optimizer)
    call ls_dense_layer_destroy(n%output)
    call ls_dense_layer_destroy(n%hidden)
  end subroutine
end module

program heat
  use plates
  implicit none
  type(plate), save :: self
  type(c_ptr) :: ranks, runtime, previous
  integer :: level, code
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level, code)
  call plate_init(self)
  call check(ls_mpi_open(ls_mpi_options(communicator=ls_some(self%comm)), &
                         ranks))
  call check(ls_runtime_create( &
    ls_runtime_options(threads=1, communicator=ranks), runtime))
  previous = ls_runtime_make_current(runtime)
  call train(self)
  previous = ls_runtime_make_current(c_null_ptr)
  call check(ls_runtime_destroy(runtime))
  call check(ls_mpi_close(ranks))
  call MPI_Comm_free(self%comm, code)
  call MPI_Finalize(code)
end program

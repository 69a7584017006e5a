# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of tests/cli about ranks share, after cli.sh.
# shellcheck shell=sh disable=SC2034,SC2154

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# with_each_mpi FUNCTION WORD...: calls it for each $mpi whose mpirun and module
# are there: for all at once, as they mostly wait, each in a folder of its own.
# One has $is_first=true: it also tests what does not depend on MPI.
with_each_mpi() {
  processes=
  is_first=true
  for mpi in mpich openmpi; do
    command -v "mpirun.$mpi" >/dev/null || continue
    [ -e "$(dirname "$lockstep")/liblockstep-mpi-$mpi.so" ] || continue
    mkdir -p "$mpi"
    (cd "$mpi" && "$@"; exit "$failed") &
    processes="$processes $!"
    is_first=false
  done
  for process in $processes; do
    wait "$process" || failed=1
  done
}

# gives CODE RANKS WORD...: runs the words by mpirun.
gives() {
  wanted_code=$1 ranks=$2
  shift 2
  options=
  [ "$mpi" = mpich ] || options="--oversubscribe -q"
  # shellcheck disable=SC2086
  timeout 120 "mpirun.$mpi" $options -n "$ranks" "$@" >out.txt 2>err.txt
  code=$?
  # The first rank to end may not be the one that failed, for which it is 4;
  # MPICH combines the codes of all.
  [ $code = "$wanted_code" ] ||
    { [ "$wanted_code" != 0 ] && [ $((code & 4)) = 4 ]; } ||
    fail "$mpi, $ranks ranks: code $code: $*"
}

# says TEXT FILE TIMES
says() {
  count=$(grep -c -e "$1" "$2")
  [ "$count" = "$3" ] || fail "$mpi: '$1' $count times in $2, not $3"
}

# starts RANKS RESTARTS WORD...: runs the words by lockstep launch, as $process,
# which an interrupt reaches.
starts() { starts_by "env --default-signal=INT" "$@"; }

# starts_by COMMAND RANKS RESTARTS WORD...: likewise, by this command.
starts_by() {
  command=$1 ranks=$2 restarts=$3
  shift 3
  # shellcheck disable=SC2086
  $command "$lockstep" launch --ranks "$ranks" --mpi "$mpi" \
    --restarts "$restarts" -- "$@" >out.txt 2>err.txt &
  process=$!
}

# stops CODE: interrupts it; it must end with this code.
stops() {
  kill -s INT $process
  wait $process
  code=$?
  [ $code = "$1" ] || fail "$mpi: stopped with code $code"
}

# is_killed RUN: kills a rank that trains in this folder, and waits. It must
# have ended well, after a new start.
is_killed() {
  # A busy machine may come too late.
  killed=0
  pkill -KILL -n -f "^$lockstep train .* --run-dir $1\$" && killed=1
  wait $process
  code=$?
  [ $code = 0 ] || fail "$mpi: killed and started again: code $code"
  says 'was killed by signal 9' err.txt $killed
}

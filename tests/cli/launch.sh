#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep launch: ranks that end well, fail, are killed, stop or start again,
# with each MPI whose mpirun is there.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
# shellcheck source=tests/support/mpi.sh
. "$(dirname "$0")/../support/mpi.sh"

ends 2 "the program is missing" launch --ranks 2
ends 2 "--ranks is missing" launch -- true
ends 2 "--restarts needs a training's --run-dir" launch --ranks 2 --restarts 1 \
  -- "$lockstep" train --model tiny
ends 2 "--restart is for --as-rank; did you mean '--restarts'?" launch \
  --ranks 2 --restart 1 -- "$lockstep" train --model tiny --run-dir run
ends 2 "neither openmpi nor mpich" launch --ranks 2 --mpi best -- true
(PATH=/nowhere; "$lockstep" launch --ranks 2 -- true) >out.txt 2>err.txt
grep -q "on Debian: apt-get install openmpi-bin" err.txt ||
  fail "without mpirun it does not say what to install"

cat >ranked.sh <<'END'
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
case $1 in
fails) [ "$rank" != 1 ] || { echo "no more paper" >&2; exit 7; } ;;
tells) [ "$rank" != 0 ] || exit 4
       [ "$rank" != 1 ] || { sleep 0.3; echo "no more paper" >&2; exit 7; } ;;
inside) printf '10%%\r20%%\rdone' >&2; exit 0 ;;
late) [ "$rank" != 1 ] || [ "$LS_RESTART" -ge 3 ] || exit 7 ;;
dies) [ "$rank" != 1 ] || [ "$LS_RESTART" -ge "$2" ] || kill -9 $$ ;;
esac
trap 'echo "rank $rank stops"; exit 0' TERM
trap ': >"told.$rank"' QUIT
[ "$1$rank" != talks1 ] || printf '%010000d\n' 0 >&2
# Stops at the second signal.
[ "$1" != stays ] ||
  trap ': >"first.$rank"; trap "echo rank $rank stops; exit 0" TERM' TERM
count=0
[ "$1" != stays ] || set -- waits
[ "$1" != waits ] || : >"waits.$rank"
[ "$1" != waits ] || count=-600
while [ $count -lt 3 ]; do
  sleep 0.1
  count=$((count + 1))
done
echo "rank $rank of start $LS_RESTART"
END

# launches CODE RESTARTS WORD...
launches() {
  wanted_code=$1 restarts=$2
  shift 2
  "$lockstep" launch --ranks 3 --mpi "$mpi" --restarts "$restarts" -- \
    sh ../ranked.sh "$@" >out.txt 2>err.txt
  code=$?
  [ $code = "$wanted_code" ] || fail "$mpi $*: code $code"
}

launches_all() {
  rm -rf seeds never
  launches 0 0 ends
  says 'rank [012] of start 0' out.txt 3
  launches 7 0 fails
  says 'no more paper' err.txt 1
  says 'lockstep launch: rank 1 of 3 ended with code 7' err.txt 1
  # The rank that failed by itself is named, though another one ended first.
  launches 7 0 tells
  says 'lockstep launch: rank 1 of 3 ended with code 7' err.txt 1
  launches 137 0 dies 1
  says 'rank 1 of 3 was killed by signal 9' err.txt 1
  launches 0 2 dies 1
  says 'restart 1 of 2' err.txt 1
  says 'rank [012] of start 1' out.txt 3
  launches 137 1 dies 9
  says 'was killed' err.txt 2

  # A program may write what MPI writes of a rank that is gone.
  "$lockstep" launch --ranks 1 --mpi "$mpi" -- sh -c '
    echo "x] Read -1, expected 2; write(3) returned -1: No such process" >&2
    echo "[host:12] Read -1, expected 4096, errno = 3" >&2' >out.txt 2>err.txt
  says 'Read -1' err.txt 1
  says 'write(3) returned' err.txt 1

  # A file beyond the limit ends a program, as without launch.
  "$lockstep" launch --ranks 1 --mpi "$mpi" -- \
    grep -q '^SigIgn:.*[02468ace].\{6\}$' /proc/self/status ||
    fail "$mpi: SIGXFSZ is ignored"

  # A program may end in the middle of a line.
  launches 0 2 inside
  grep -q done err.txt || fail "$mpi: the last words are lost"

  # What would end in the same way is not started again and again.
  "$lockstep" launch --ranks 2 --mpi "$mpi" --restarts 5 -- "$lockstep" train \
    --model tiny --data ../nothing.csv --replicas 2 --run-dir never \
    >out.txt 2>err.txt
  [ $? = 1 ] || fail "$mpi: data that are missing"
  says 'there is no file or folder' err.txt 2
  says 'the restart made no new checkpoint' err.txt 1
  # Other programs, and seeds, have no checkpoint in the folder.
  launches 0 3 late --run-dir never
  says 'restart 3 of 3' err.txt 1
  "$lockstep" launch --ranks 2 --mpi "$mpi" --restarts 2 -- "$lockstep" train \
    --model tiny --data ../nothing.csv --replicas 2 --run-dir never --seeds 2 \
    >out.txt 2>err.txt
  [ $? = 1 ] || fail "$mpi: data that seeds miss"
  says 'restart 2 of 2' err.txt 1
  "$lockstep" launch --ranks 2 --mpi "$mpi" -- "$lockstep" train --model tiny \
    --data synthetic --steps 2 --replicas 2 --run-dir seeds --seeds 2 \
    >out.txt 2>err.txt || fail "$mpi: seeds"
  says 'of 2 seeds' out.txt 2
  says 'seed 1, the run 2 of 2' err.txt 1

  # Machines tell how many ranks there are; what all say is printed once.
  "$lockstep" launch --hosts localhost:2 --mpi "$mpi" -- sh ../ranked.sh ends \
    >out.txt 2>err.txt || fail "$mpi: --hosts without --ranks"
  says 'rank [01] of start 0' out.txt 2
  "$lockstep" launch --ranks 3 --mpi "$mpi" -- nosuchprogram >out.txt 2>err.txt
  says 'cannot start nosuchprogram' err.txt 1

  # A long line stays one.
  launches 0 0 talks
  says '^0\{10000\}$' err.txt 1

  # Ctrl-\ reaches all ranks and ends nothing; nohup is heeded.
  rm -f waits.* told.*
  starts_by "env --default-signal=INT,QUIT --ignore-signal=HUP" 3 0 \
    sh ../ranked.sh waits
  waits_for test -e waits.0 -a -e waits.1 -a -e waits.2
  kill -s QUIT $process
  waits_for test -e told.0 -a -e told.1 -a -e told.2
  kill -s HUP $process
  sleep 0.3
  kill -s 0 $process || fail "$mpi: ended by a signal that ends nothing"
  stops 130
  says 'rank [012] stops' out.txt 3

  # A rank that a signal ends before its run, while a library loads, was killed
  # by it: MPI takes any code before MPI_Init for no failure.
  rm -f was-loaded
  cp "${LS_BUILD_DIR:?}/tests/cli/libraries/tells.so" mine.so
  "$lockstep" launch --ranks 1 --mpi "$mpi" -- "$lockstep" train \
    --model "$PWD/mine.so" >out.txt 2>err.txt &
  process=$!
  waits_for test -e was-loaded
  pkill -TERM -n -f "^$lockstep train --model $PWD/mine.so\$"
  wait $process
  code=$?
  [ $code = 143 ] || fail "$mpi: ended early with code $code"
  says 'rank 0 of 1 was killed by signal 15' err.txt 1

  # A signal reaches all ranks, which end by themselves.
  rm -f waits.*
  starts 3 0 sh ../ranked.sh waits
  waits_for test -e waits.0 -a -e waits.1 -a -e waits.2
  stops 130
  says 'rank [012] stops' out.txt 3
  rm -f waits.* first.*
  starts 3 0 sh ../ranked.sh stays
  waits_for test -e waits.0 -a -e waits.1 -a -e waits.2
  kill -s INT $process
  waits_for test -e first.0 -a -e first.1 -a -e first.2
  stops 130
  says 'rank [012] stops' out.txt 3
}

with_each_mpi launches_all
exit $failed

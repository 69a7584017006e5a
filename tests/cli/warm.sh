#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs that start with what others have: what they take, what config.json says
# of it, and what is refused.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf base warm initial straight part most again mapped twin turned other.npz

# trains FOLDER FLAG...
trains() {
  folder=$1
  shift
  "$lockstep" train --model tiny --data synthetic --quiet --run-dir "$folder" \
    "$@" >out.txt 2>err.txt || fail "train $*"
}
# has WANTED FILE
has() { grep -qF -- "$1" "$2" || fail "'$1' is not in $2"; }
# equal PATH PATH PATTERN, and differ the same.
equal() {
  "$lockstep" checkpoint diff "$1" "$2" --only "$3" >out.txt 2>err.txt ||
    fail "$3 of $1 and $2 differ"
}
differ() {
  "$lockstep" checkpoint diff "$1" "$2" --only "$3" >out.txt 2>err.txt &&
    fail "$3 of $1 and $2 are equal"
}
still="--steps 1 --learning-rate 1e-30"  # Weights stay as they are.

trains base --steps 30
# shellcheck disable=SC2086
trains warm $still --seed 5 --warm-start base
has "4 of 4 variables start with" err.txt
has "\"warm_start\":\"$(pwd -P)/base\"" warm/config.json
equal base warm '*/kernel,*/bias'
# Without a step the weights are the other's, for eval, predict and export; a
# run that goes on has the bits of one that began with all its steps.
trains initial --steps 2 --steps 0 --seed 5 --warm-start base
[ ! -s out.txt ] || fail "a run without a step is tested"
cmp -s base/model.safetensors initial/model.safetensors &&
  fail "no optimizer of its own"
equal base initial '*/kernel,*/bias'
for run in base initial; do
  "$lockstep" eval --json "$run" >"eval-$run.txt" 2>err.txt || fail "eval $run"
  "$lockstep" predict "$run" >"predict-$run.txt" 2>err.txt || fail "predict $run"
done
cmp -s eval-base.txt eval-initial.txt || fail "other weights are evaluated"
cmp -s predict-base.txt predict-initial.txt || fail "other weights predict"
"$lockstep" export initial >out.txt 2>err.txt || fail "export initial"
trains straight --steps 3 --seed 5 --warm-start base
"$lockstep" train --resume initial --steps 3 --quiet >out.txt 2>err.txt ||
  fail "a run without a step does not go on"
cmp -s straight/model.safetensors initial/model.safetensors ||
  fail "a run that goes on from no step has other bits"
ends 1 "already at step 3, beyond the requested 0" train --resume initial --steps=0
ends 2 "there is nothing for --seeds to compare" train --model tiny \
  --data synthetic --seeds 3 --steps 0
# shellcheck disable=SC2086
trains part $still --seed 5 --warm-start base/model.safetensors \
  --only 'hidden1/*'
has "2 of 4 variables start with" err.txt
has '"warm_only":"hidden1/*"' part/config.json
equal base part 'hidden1/*'
differ base part 'logits/*'
# shellcheck disable=SC2086
trains most $still --seed 5 --warm-start base --except 'logits/*,*/bias'
has "1 of 4 variables start with" err.txt
has '"warm_except":"logits/*,*/bias"' most/config.json
equal base most 'hidden1/kernel'
differ base most 'logits/*'
# One that has saved nothing starts so again.
cp -r most again
rm again/model.* again/checkpoint
"$lockstep" train --resume again --quiet >out.txt 2>err.txt ||
  fail "a run that saved nothing does not begin again"
equal most again '*'
"$lockstep" checkpoint convert base other.npz --map /=old/ >out.txt 2>err.txt ||
  fail "convert"
# shellcheck disable=SC2086
trains mapped $still --seed 5 --warm-start other.npz --map old/=/ --replicas 2
equal base mapped '*/kernel,*/bias'

# A run that was stopped goes on from what it has.
trains twin --schedule constant --steps 4 --save-every-steps 2 --warm-start base
"$lockstep" train --resume twin --steps 8 --quiet >out.txt 2>err.txt ||
  fail "resume"
grep -q 'start with' err.txt && fail "a run that goes on is warmed up again"
rm -rf warm
trains warm --schedule constant --steps 8 --save-every-steps 2 --warm-start base
equal warm twin '*'

ends 1 "cannot open 'nowhere'" train --model tiny --data synthetic --quiet \
  --run-dir none --warm-start nowhere
[ ! -e none ] || fail "a run that could not start is there"
ends 1 "'dense/*' fits no variable of 4: 'hidden1/kernel'" train --model tiny \
  --data synthetic --quiet --run-dir none --warm-start base --only 'dense/*'
ends 1 "has no array 'x/hidden1/kernel'" train --model tiny \
  --data synthetic --quiet --run-dir none --warm-start base --map x/=/
ends 2 "--map has 'a', expected OLD=NEW" train --warm-start base --map a
ends 2 "--only is for --warm-start" train --only a
ends 2 "--map is for --warm-start" train --map a=b
ends 2 "--except is for --warm-start" train --except a
ends 1 "'dense/*' fits no variable of 4: 'hidden1/kernel'" train --model tiny \
  --data synthetic --quiet --run-dir none --warm-start base --except 'dense/*'
ends 2 "--resume continues with the run's values; --warm-start cannot be given" \
  train --resume base --warm-start base

# Layouts: kernels of the file are permuted, or refused with the flag that does.
cat >layout.py <<'END'
import json, struct, sys
source, target = sys.argv[1:]
raw = open(source, "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + size])
data, out, body = raw[8 + size:], {}, b""
for name, entry in head.items():
    if name not in ("hidden1/kernel", "logits/kernel"):
        continue
    rows, columns = entry["shape"]
    begin, end = entry["data_offsets"]
    values = struct.unpack(f"<{rows * columns}f", data[begin:end])
    turned = [values[i * columns + o] for o in range(columns)
              for i in range(rows)]
    out[name.replace("/kernel", ".weight")] = {
        "dtype": "F32", "shape": [columns, rows],
        "data_offsets": [len(body), len(body) + end - begin]}
    body += struct.pack(f"<{rows * columns}f", *turned)
text = json.dumps(out).encode()
open(target, "wb").write(struct.pack("<Q", len(text)) + text + body)
END
if command -v python3 >python.txt; then
  python3 layout.py base/model.safetensors torch.safetensors
  names="--map hidden1.weight=hidden1/kernel,logits.weight=logits/kernel"
  # shellcheck disable=SC2086
  trains turned $still --seed 5 --warm-start torch.safetensors $names \
    --only '*/kernel' --layout torch
  equal base turned '*/kernel'
  has '"warm_layout":"torch"' turned/config.json
  # shellcheck disable=SC2086
  ends 1 ": it fits with --layout torch" train --model tiny --data synthetic \
    --quiet --warm-start torch.safetensors $names --only logits/kernel \
    --run-dir refused
  # shellcheck disable=SC2086
  ends 1 "would fit variable 'hidden1/kernel' in both layouts" train \
    --model tiny --data synthetic --quiet --warm-start torch.safetensors \
    $names --only hidden1/kernel --run-dir refused
  # shellcheck disable=SC2086
  ends 1 "variable 'hidden1/kernel' has 16 inputs, which are no images of" \
    train --model tiny --data synthetic --quiet --run-dir refused \
    --warm-start torch.safetensors $names --only '*/kernel' \
    --layout torch,hidden1/kernel=2x2x2
  # Images are for dense kernels that are restored, once each.
  # shellcheck disable=SC2086
  ends 1 "images are given for 'typo/kernel', which is not a dense kernel" \
    train --model tiny --data synthetic --quiet --run-dir refused \
    --warm-start torch.safetensors $names --only '*/kernel' \
    --layout torch,typo/kernel=3x5x7
  # shellcheck disable=SC2086
  ends 1 "images are given for 'logits/kernel', which is not a dense kernel" \
    train --model tiny --data synthetic --quiet --run-dir refused \
    --warm-start torch.safetensors $names --only hidden1/kernel \
    --layout torch,logits/kernel=16x1x1
  # shellcheck disable=SC2086
  ends 1 "the images of 'hidden1/kernel' are given twice" \
    train --model tiny --data synthetic --quiet --run-dir refused \
    --warm-start torch.safetensors $names --only '*/kernel' \
    --layout torch,hidden1/kernel=16x1x1,hidden1/kernel=16x1x1
  # Values of other dtypes are converted.
  python3 - torch.safetensors wide.safetensors <<'END'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
head, body = json.loads(raw[8:8 + size]), raw[8 + size:]
for entry in head.values():
    entry["dtype"] = "F64"
    entry["data_offsets"] = [2 * n for n in entry["data_offsets"]]
values = struct.unpack(f"<{len(body) // 4}f", body)
text = json.dumps(head).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text +
                              struct.pack(f"<{len(values)}d", *values))
END
  rm -rf turned
  # shellcheck disable=SC2086
  trains turned $still --seed 5 --warm-start wide.safetensors $names \
    --only '*/kernel' --layout torch
  equal base turned '*/kernel'
  ends 1 "these look like PyTorch's names: map them" train --model tiny \
    --data synthetic --quiet --run-dir refused --warm-start torch.safetensors
  python3 -c "import zipfile
zipfile.ZipFile('net.pt', 'w').writestr('net/data.pkl', 'x')"
  ends 1 "/net.pt' is a file of torch.save, which is not read: save" train \
    --model tiny --data synthetic --quiet --run-dir refused --warm-start net.pt
fi
ends 2 "--layout is for --warm-start" train --layout torch

# A schedule that ends elsewhere is reported.
"$lockstep" train --resume base --steps 40 >out.txt 2>err.txt ||
  fail "resume with more steps"
has "the linear schedule ends at step 40, not 30: the learning rate" err.txt
ends 2 "--layout is 'keras', expected own, or torch" train --warm-start base \
  --layout keras
ends 2 "--layout is 'torch,a=2x3', expected own, or torch" train \
  --warm-start base --layout torch,a=2x3

# Texts that are fewer than the other run's outputs keep these, and the scale of
# bytes stays, also with a file of flags.
awk 'BEGIN { for (i = 0; i < 40; ++i) {
  for (k = 0; k < 16; ++k) printf "%d,", (i * 37 + k * 91) % 256
  print i % 2
} }' >bare.csv
awk -F , -v OFS=, 'NR == 1 { for (k = 0; k < 16; ++k) printf "x%d,", k
  print "label" }
  { $17 = $17 ? "up" : "down"; print }' bare.csv >texts.csv
rm -rf bytes named head plain flagged
tiny="train --model tiny --batch-size 8 --steps 2 --quiet --run-dir"
# learns FOLDER FLAG...
learns() {
  # shellcheck disable=SC2086
  "$lockstep" $tiny "$@" >out.txt 2>err.txt || fail "train $*"
}
learns bytes --data bare.csv
learns named --data texts.csv --warm-start bytes
has '"bytes":"yes"' named/config.json
has '"outputs":0' named/config.json
learns head --data texts.csv --warm-start bytes --except 'logits/*'
has '"outputs":2' head/config.json
learns plain --data texts.csv
has '"bytes":"no"' plain/config.json
sed 's/"bytes":"no"/"bytes":"yes"/; s/,"crc32c".*/}/' plain/config.json \
  >flags.json
learns flagged --config flags.json
has '"bytes":"yes"' flagged/config.json
learns flagged --overwrite --config flags.json --data texts.csv
has '"bytes":"no"' flagged/config.json

exit $failed

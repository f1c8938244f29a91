#!/usr/bin/env bash
# Everything that needs a CUDA device, side by side: tests, a GPU against the CPU, checks of each API; then, alone, the
# benchmarks. CI has no GPU, so run this after changing what one runs.
#
#     tools/gpu.sh FOLDER        logs go to FOLDER; PYTHON chooses the interpreter
#
# Tests want pytest and pytest-xdist, models transformers. It takes about five minutes on an H200 with 16 cores.
set -u
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:?usage: tools/gpu.sh FOLDER}")
python=${PYTHON:-python3}
mkdir -p "$folder"
OPTIONS="-p no:cacheprovider -p no:benchmark" # pytest-benchmark warns beside xdist, and warnings are errors
ROOMS="tests/recording tests/kernels tests/devices tests/in_lockstep tests/perturb tests/comparing/judging"
export PYTHONPATH=$PWD/src:$PWD${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1

beside() {
    local name=$1
    shift
    { "$@" > "$folder/$name.txt" 2>&1 || echo "$name ended with $?"; } &
}

for model in llama qwen2 gpt2 bert t5 mixtral vit whisper cnn lstm; do
    for task in statistics tensor; do
        beside "against-cpu-$model-$task" \
            "$python" -m benchmarks.cpu_against_cuda "$folder/runs/$model-$task" --models $model --task $task
    done
done
beside tests "$python" -m pytest -q -m gpu -n 8 $OPTIONS $ROOMS
for first in 0 1 2 3; do
    NVIDIA_TF32_OVERRIDE=0 beside "operators-$first" "$python" -m tests.check.operator_database \
        --device cuda --samples 1 --every 4 --first $first --json "$folder/operators-$first.json"
done
for dtype in float32 bfloat16 float16; do
    beside "zoo-$dtype" "$python" -m tests.check.recorded_zoo --device cuda --dtypes $dtype
done
beside zoo-tf32 "$python" -m tests.check.recorded_zoo --device cuda --tf32 --dtypes float32
wait
tail -n 1 "$folder/tests.txt"
grep -h "right:\|named:" "$folder"/against-cpu-*.txt | sort | uniq -c
grep -h "judged" "$folder"/zoo-*.txt

benchmark() {
    local name=$1
    shift
    "$python" "benchmarks/bench_$name.py" "$@" 2> /dev/null | grep '^{' | tee -a "$folder/benchmarks.txt"
}

benchmark device_time
benchmark capture_cuda --recorder ours debug_mode --modes statistics-L1 statistics-L0 statistics-mix md5-L1
benchmark capture_cuda --recorder ours --size large --modes statistics-L1 statistics-L0
benchmark perturb --device cuda --laps 9

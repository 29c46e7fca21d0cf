# shellcheck shell=bash
# Steps of a run: each has a headline and a duration, and a failed one does not stop the others. What they left behind
# is counted and judged at the end by summary.mjs. Sourced by ./test.

scratch=   # the run's own folder, made by ./test

die() {
  echo "test: $*" >&2
  exit 1
}

headline() {
  printf '\n=== %s\n' "$*"
}

# step KEY FORMAT REPORT COMMAND...: runs the command and notes how it went.
# FORMAT says how summary.mjs counts it: "one" (the command is one case; REPORT is "-"), "junit" or "vitest" (the command
# writes REPORT), "cargo" (its output is the report). The step's own exit status is the command's.
step() {
  local key=$1 format=$2 report=$3 began=$SECONDS status=0
  shift 3
  headline "$key"
  # A report of an earlier run must not be taken for this one's.
  [[ $report == - ]] || rm -f "$report"
  if [[ $format == cargo ]]; then
    "$@" 2>&1 | tee "$report" || status=$?
  else
    "$@" || status=$?
  fi
  note "$key" $((SECONDS - began)) "$status" "$format" "$report"
  printf -- '--- %s: status %d, %d s\n' "$key" "$status" $((SECONDS - began))
  return "$status"
}

# skip KEY REASON: the step is left out on purpose, and the summary says so.
skip() {
  headline "$1"
  echo "skipped: $2"
  note "$1" 0 skipped one "$2"
}

# cannot KEY REASON: the step could not run because of one before it, which is a failure.
cannot() {
  headline "$1"
  echo "not run: $2"
  note "$1" 0 1 one -
}

note() {
  local IFS=$'\t'
  echo "$*" >>"$scratch/steps"
}

summarise() {
  node tests/lib/summary.mjs "$scratch/steps" tests/known-failures.txt
}

/**
 * Decides what a step's result means for the run, with the known failures in mind:
 *
 *                 not listed     listed in known-failures.txt
 *   test passes   passed         failed: the list is out of date, take the name off
 *   test fails    failed         known: tolerated, counted apart
 *
 * Called by summary.mjs.
 */

import { readCargo, readJunit, readVitest } from "./results.mjs"

const READERS = { junit: readJunit, vitest: readVitest, cargo: readCargo }

/**
 * @param step `{ key, status, format, report }`: the command's exit status, how its report reads ("one" for a
 *   command that is a single case itself) and the report's text, null where the command left none
 * @param known the names of known failures; a name counts for every step, `key: name` for that step alone
 * @returns `{ passed, failed, tolerated, problems }`; `failed` is the number of `problems`
 */
export function judge(step, known) {
  const verdict = { passed: 0, failed: 0, tolerated: 0, problems: [] }
  if (step.format === "one") {
    if (step.status === 0) verdict.passed = 1
    else problem(verdict, `${step.key}: failed with status ${step.status}`)
    return verdict
  }

  const cases = step.report === null ? [] : READERS[step.format](step.report)
  for (const each of cases) {
    if (each.outcome === "skipped") continue
    const listed = isListed(step, each.name, known)
    if (each.outcome === "failed") {
      if (listed) verdict.tolerated++
      else problem(verdict, `${step.key}: ${each.name}`)
    } else if (listed) {
      problem(verdict, `${step.key}: ${each.name} (passes: take it off tests/known-failures.txt)`)
    } else {
      verdict.passed++
    }
  }
  // A runner that tells nothing, or fails while no test did (it did not build, it crashed), must not look like a success.
  if (step.report === null) {
    problem(verdict, `${step.key}: left no report, status ${step.status}`)
  } else if (step.status !== 0 && !cases.some((each) => each.outcome === "failed")) {
    problem(verdict, `${step.key}: failed with status ${step.status}, outside its tests`)
  }
  return verdict
}

function isListed(step, name, known) {
  if (known.has(name) || known.has(`${step.key}: ${name}`)) return true
  // `cargo test` does not say which binary a test is in, while the list has nextest's `binary-id test::path`.
  return step.format === "cargo" && [...known].some((entry) => entry.endsWith(` ${name}`))
}

function problem(verdict, text) {
  verdict.failed++
  verdict.problems.push(text)
}

/**
 * The end of `./test`: a table of all steps, every failure by name, and as its last line `N passed, N failed`.
 *
 *   node tests/lib/summary.mjs STEPS KNOWN_FAILURES
 *
 * STEPS has a line for each step, its fields separated by tabs (see steps.sh, which writes it):
 *   key, seconds, exit status or "skipped", format, file of the report or reason why it was skipped
 * Exits with 1 if anything failed.
 */

import { existsSync, readFileSync } from "node:fs"
import { judge } from "./judge.mjs"
import { readKnownFailures } from "./results.mjs"

const [stepsFile, knownFile] = process.argv.slice(2)
const known = readKnownFailures(readFileSync(knownFile, "utf8"))
const steps = readFileSync(stepsFile, "utf8").split("\n").filter(Boolean).map(parseStep)

const total = { passed: 0, failed: 0, problems: [] }
const rows = [["step", "passed", "failed", "known", "time", ""]]
for (const step of steps) {
  const time = `${step.seconds} s`
  if (step.skipped) {
    rows.push([step.key, "-", "-", "-", time, `skipped: ${step.skipped}`])
    continue
  }
  const verdict = judge(step, known)
  total.passed += verdict.passed
  total.failed += verdict.failed
  total.problems.push(...verdict.problems)
  const counts = [verdict.passed, verdict.failed, verdict.tolerated].map(String)
  rows.push([step.key, ...counts, time, verdict.failed > 0 ? "FAILED" : ""])
}

console.log(`\n${table(rows)}\n`)
for (const problem of total.problems) console.log(`failed  ${problem}`)
console.log(`${total.passed} passed, ${total.failed} failed`)
process.exitCode = total.failed > 0 ? 1 : 0

function parseStep(line) {
  const [key, seconds, status, format, file] = line.split("\t")
  if (status === "skipped") return { key, seconds, skipped: file }
  const report = format !== "one" && existsSync(file) ? readFileSync(file, "utf8") : null
  return { key, seconds, status: Number(status), format, report }
}

function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  const cell = (text, column) =>
    column === 0 || column === 5 ? text.padEnd(widths[column]) : text.padStart(widths[column])
  return rows.map((row) => row.map(cell).join("  ").trimEnd()).join("\n")
}

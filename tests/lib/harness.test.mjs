/**
 * The judge itself is judged: what it lets through, nothing else would catch.
 * Run by `./test` as `node --test --test-reporter=spec tests/lib/harness.test.mjs`.
 */

import assert from "node:assert/strict"
import { test } from "node:test"
import { judge } from "./judge.mjs"
import { readCargo, readJunit, readKnownFailures, readVitest } from "./results.mjs"

const JUNIT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0">
  <testsuite name="tidewire-store" tests="3" disabled="0" errors="0" failures="1">
    <testcase name="log::an_offset_rises" classname="tidewire-store" time="0.01"/>
    <testcase name="log::&quot;a&quot; &lt; &apos;b&apos;" classname="tidewire-store::contract" time="0.01">
      <system-out>&lt;testcase name="not::one" classname="x">&lt;failure/></system-out>
    </testcase>
    <testcase name="log::a_gap" classname="tidewire-store" time="0.01">
      <failure message="panicked" type="test failure">a > b</failure>
    </testcase>
  </testsuite>
</testsuites>`

const VITEST = JSON.stringify({
  testResults: [
    {
      name: "/somewhere/one.test.ts",
      status: "failed",
      message: "",
      assertionResults: [
        { ancestorTitles: ["a", "b"], title: "c", status: "passed" },
        { ancestorTitles: ["a"], title: "d", status: "failed" },
        { ancestorTitles: [], title: "e", status: "pending" },
      ],
    },
    { name: "/somewhere/two.test.ts", status: "failed", message: "it does not load", assertionResults: [] },
  ],
})

const CARGO = `running 3 tests
test crates/store/src/log.rs - log::Position (line 12) ... ok
test crates/store/src/log.rs - log::Other (line 40) - compile fail ... FAILED
test slow ... ignored, takes an hour
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s`

const junit = (status, known = []) => judge({ key: "rust", status, format: "junit", report: JUNIT }, new Set(known))

test("a JUnit report is read by name, whatever stands in a test's output", () => {
  assert.deepEqual(readJunit(JUNIT), [
    { name: "tidewire-store log::an_offset_rises", outcome: "passed" },
    { name: `tidewire-store::contract log::"a" < 'b'`, outcome: "passed" },
    { name: "tidewire-store log::a_gap", outcome: "failed" },
  ])
})

test("a vitest report is read by name, and a file that does not load is a failure", () => {
  assert.deepEqual(readVitest(VITEST), [
    { name: "a > b > c", outcome: "passed" },
    { name: "a > d", outcome: "failed" },
    { name: "e", outcome: "skipped" },
    { name: "two.test.ts", outcome: "failed" },
  ])
})

test("the output of cargo test is read by name", () => {
  assert.deepEqual(
    readCargo(CARGO).map((each) => each.outcome),
    ["passed", "failed", "skipped"],
  )
  assert.equal(readCargo(CARGO)[0].name, "crates/store/src/log.rs - log::Position (line 12)")
})

test("the list of known failures has comments and empty lines", () => {
  assert.deepEqual([...readKnownFailures("# why\n\n a > b \nc # d\n")], ["a > b", "c # d"])
})

test("an unlisted failure fails the run", () => {
  const { passed, failed, tolerated, problems } = junit(100)
  assert.deepEqual([passed, failed, tolerated], [2, 1, 0])
  assert.deepEqual(problems, ["rust: tidewire-store log::a_gap"])
})

test("a listed failure is tolerated, by its name or by step and name", () => {
  for (const entry of ["tidewire-store log::a_gap", "rust: tidewire-store log::a_gap"]) {
    const { passed, failed, tolerated } = junit(100, [entry])
    assert.deepEqual([passed, failed, tolerated], [2, 0, 1])
  }
})

test("a failure listed with nextest's name is tolerated from cargo test as well", () => {
  const report = "test log::a_gap ... FAILED"
  const known = new Set(["tidewire-store log::a_gap"])
  assert.equal(judge({ key: "rust", status: 101, format: "cargo", report }, known).tolerated, 1)
})

test("a failure listed for another step is not tolerated", () => {
  assert.equal(junit(100, ["faults: tidewire-store log::a_gap"]).failed, 1)
})

test("a listed test that passes fails the run", () => {
  const { passed, failed, problems } = junit(100, ["tidewire-store log::an_offset_rises", "tidewire-store log::a_gap"])
  assert.deepEqual([passed, failed], [1, 1])
  assert.match(problems[0], /an_offset_rises \(passes: take it off/)
})

test("a runner that fails without a failed test, or without a report, fails the run", () => {
  const clean = JUNIT.replace(/<failure.*failure>/, "")
  assert.equal(judge({ key: "rust", status: 0, format: "junit", report: clean }, new Set()).failed, 0)
  assert.equal(judge({ key: "rust", status: 100, format: "junit", report: clean }, new Set()).failed, 1)
  assert.equal(judge({ key: "rust", status: 101, format: "junit", report: null }, new Set()).failed, 1)
  assert.equal(judge({ key: "rust", status: 0, format: "junit", report: null }, new Set()).failed, 1)
})

test("a command that is one case passes or fails as one", () => {
  assert.equal(judge({ key: "fmt", status: 0, format: "one" }, new Set()).passed, 1)
  assert.deepEqual(judge({ key: "fmt", status: 1, format: "one" }, new Set()).problems, ["fmt: failed with status 1"])
})

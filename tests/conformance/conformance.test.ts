/**
 * The official Durable Streams suite, complete: streams, forks and `__ds` subscriptions.
 */

import { runConformanceTests } from "@durable-streams/server-conformance-tests"
import { describe, expect, test } from "vitest"
import { endsWell, everyTest, serverForThisFile } from "./fixture.ts"

/** How many tests version 0.3.6 of the suite has, subscriptions included. */
const TESTS_OF_THE_SUITE = 338
/**
 * The suite allows its long-poll tests this much and a second more. It bounds a hang and nothing else, so it is far
 * above the server's own timeout: a loaded machine must not fail a run.
 */
const LONG_POLL_TESTS_MS = 20_000

const server = await serverForThisFile()

describe("suite", () => {
  runConformanceTests({ baseUrl: server.baseUrl, longPollTimeoutMs: LONG_POLL_TESTS_MS, subscriptions: true })
})

describe("the suite", () => {
  test(`ran all of its ${TESTS_OF_THE_SUITE} tests`, ({ task }) => {
    const suite = task.file.tasks.find((each) => each.name === "suite")
    const tests = suite ? everyTest(suite) : []
    const notRun = tests.filter((each) => !["pass", "fail"].includes(each.result?.state ?? ""))
    expect(notRun.map((each) => each.name)).toEqual([])
    expect(tests).toHaveLength(TESTS_OF_THE_SUITE)
  })
})

endsWell(server)

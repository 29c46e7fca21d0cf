/**
 * The frame around a test file: its server, and what must hold once its tests are through.
 *
 * The file awaits `serverForThisFile()` at its top, because the suite wants the address while it collects tests,
 * and calls `endsWell()` at its bottom: vitest runs a file's tests in the order they stand in.
 */

import { afterAll, describe, expect, type RunnerTask, test } from "vitest"
import { type Server, startServer } from "./server.ts"

export async function serverForThisFile(): Promise<Server> {
  const server = await startServer()
  // vitest reads the fixtures that are wanted from the first parameter: none.
  afterAll(async ({}, file) => {
    await server.remove()
    if (everyTest(file).some((each) => each.result?.state === "fail")) {
      console.error(`--- the server's log, its end ---\n${server.log()}\n---`)
    }
  })
  return server
}

/** The last test of a file: whatever the tests did to the server, it drains and exits cleanly. */
export function endsWell(server: Server): void {
  describe("the server", () => {
    // Longer than the server is given to drain, so that a hang is reported as one.
    test("drains and exits with status 0 on SIGTERM", { timeout: 40_000 }, async () => {
      expect(await server.stop()).toEqual({ code: 0, signal: null })
    })
  })
}

/** All tests below a file or a describe block, in order. */
export function everyTest(task: RunnerTask): RunnerTask[] {
  return task.type === "suite" ? task.tasks.flatMap(everyTest) : [task]
}

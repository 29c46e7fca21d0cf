// How vitest runs the suite: one file at a time, against one server.
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["*.test.ts"],
    // A forgotten `.only` must fail a run, not shorten it.
    allowOnly: false,
    // A worker is a process of its own, so that it can own its server.
    pool: "forks",
    // Each file has its own server: side by side they would only disturb each other's timings.
    fileParallelism: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // The suite imports vitest too; inlined, it registers its tests with the instance that runs this file.
    server: { deps: { inline: ["@durable-streams/server-conformance-tests"] } },
  },
})

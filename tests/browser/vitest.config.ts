// How the browser tests run: each file has a server and a browser of its own, one file after the other.
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["*.test.ts"],
    fileParallelism: false,
    // A forgotten `.only` must fail a run, not shorten it.
    allowOnly: false,
    // A worker is a process of its own, so that it can own its server.
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})

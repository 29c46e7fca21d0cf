// How the browser tests run: one file, one server, one browser.
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["*.test.ts"],
    // A forgotten `.only` must fail a run, not shorten it.
    allowOnly: false,
    // A worker is a process of its own, so that it can own its server.
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})

/**
 * One tidewire process for one test file: started on a free port with a store of its own,
 * stopped the way an operator stops it.
 *
 * Which binary and which store come from the environment, so that `./test` runs the same files twice:
 *   TIDEWIRE_BIN                 the binary (default: the workspace's debug build)
 *   TIDEWIRE_TEST_STORE          "sqlite" (default) or "postgres"
 *   TIDEWIRE_TEST_DATABASE_URL   with "postgres": the cluster under which a fresh database is made
 */

import { type ChildProcess, spawn } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { createDatabase, type Database } from "./database.ts"

/** The server's long-poll timeout during a run: two tests of the suite wait for it to pass. */
const LONG_POLL_MS = 1_000

/** Generous, because a debug build on a loaded machine migrates its store before it answers. */
const READY_WITHIN_MS = 30_000
/** Longer than the server's own drain, so that only a hang reaches it. */
const EXIT_WITHIN_MS = 30_000
/** Enough to see what led to a failure without burying it. */
const LOG_LINES_SHOWN = 200

export interface Server {
  readonly baseUrl: string
  /** SIGTERM, then the exit status; a process that does not end in time is killed and reported as such. */
  stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** Removes what the process left behind. Safe to call more than once, and after `stop`. */
  remove(): Promise<void>
  /** The end of what the process wrote to its standard output and error. */
  log(): string
}

export async function startServer(): Promise<Server> {
  const binary =
    process.env.TIDEWIRE_BIN ?? fileURLToPath(new URL("../../target/debug/tidewire", import.meta.url))
  const database = process.env.TIDEWIRE_TEST_STORE === "postgres" ? await createDatabase() : undefined
  const data = await mkdtemp(join(tmpdir(), "tidewire-conformance-"))
  const baseUrl = `http://127.0.0.1:${await freePort()}`

  const args = ["dev", "--listen", new URL(baseUrl).host, "--data", data]
  if (database) args.push("--database", database.url)
  const child = spawn(binary, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      TIDEWIRE_STREAMS_LONG_POLL_MS: String(LONG_POLL_MS),
      // A replication slot would outlive a server that is killed, and keep its database from being dropped.
      TIDEWIRE_CAPTURE: "outbox",
      // The suite's webhook receiver listens on loopback, which a server refuses to call by default.
      TIDEWIRE_WEBHOOKS_ALLOW_LOOPBACK: "true",
    },
  })
  const server = handle(child, baseUrl, data, database)
  try {
    await ready(child, baseUrl)
  } catch (reason) {
    await server.remove()
    throw new Error(`${binary} ${args.join(" ")}: ${String(reason)}\n${server.log()}`)
  }
  return server
}

function handle(child: ChildProcess, baseUrl: string, data: string, database?: Database): Server {
  const lines: string[] = []
  const keep = (chunk: Buffer) => {
    lines.push(...chunk.toString().trimEnd().split("\n"))
    lines.splice(0, lines.length - LOG_LINES_SHOWN)
  }
  child.stdout?.on("data", keep)
  child.stderr?.on("data", keep)
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }))
    child.once("error", (error) => {
      keep(Buffer.from(String(error)))
      resolve({ code: null, signal: null })
    })
  })
  // A worker that ends early (a crash, Ctrl-C) must not leave its server running.
  const kill = () => child.kill("SIGKILL")
  process.once("exit", kill)
  void exited.then(() => process.off("exit", kill))

  return {
    baseUrl,
    log: () => lines.join("\n"),
    async stop() {
      child.kill("SIGTERM")
      const hang = setTimeout(kill, EXIT_WITHIN_MS)
      const status = await exited
      clearTimeout(hang)
      return status
    },
    async remove() {
      kill()
      await exited
      await database?.drop()
      await rm(data, { recursive: true, force: true })
    },
  }
}

async function ready(child: ChildProcess, baseUrl: string): Promise<void> {
  const ended = new Promise<never>((_, reject) => {
    child.once("error", reject)
    child.once("exit", (code, signal) => reject(`ended before it was ready (${signal ?? `status ${code}`})`))
  })
  ended.catch(() => {})
  const deadline = AbortSignal.timeout(READY_WITHIN_MS)
  while (!deadline.aborted) {
    const answer = fetch(`${baseUrl}/readyz`, { signal: deadline }).catch(() => undefined)
    const response = await Promise.race([answer, ended])
    if (response?.status === 200) return
    // Not listening or not ready yet: the only way to learn of it is to ask again.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw `GET /readyz did not answer 200 within ${READY_WITHIN_MS} ms`
}

/** A port nobody listens on. Another process may take it before the server does; then the start fails loudly. */
async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve))
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  if (address === null || typeof address === "string") throw new Error("a TCP listener has a port")
  return address.port
}

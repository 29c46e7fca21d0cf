/**
 * A server that is stopped and started again in the same place: the same port, the same folder.
 *
 * Its first life is the one every test file has (`../conformance/server.ts`). That module keeps its folder to itself, so
 * the folder is made inside one of our own, where it can be found.
 */

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { startServer } from "../conformance/server.ts"

/** Generous, because a debug build on a loaded machine takes its time. */
const READY_WITHIN_MS = 30_000

export interface Place {
  readonly baseUrl: string
  /** SIGTERM, and a server there again: as it was, or one that asks for a key. Returns when it is ready. */
  restart(key?: string): Promise<void>
  /** Ends the server and removes what it left behind. */
  remove(): Promise<void>
}

export async function takePlace(): Promise<Place> {
  const home = await mkdtemp(join(tmpdir(), "tidewire-browser-"))
  const outside = process.env.TMPDIR
  process.env.TMPDIR = home
  const first = await startServer()
  if (outside === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = outside
  const [folder = ""] = await readdir(home)
  const where = ["--listen", new URL(first.baseUrl).host, "--data", join(home, folder)]

  let later: ChildProcess | undefined
  const kill = () => later?.kill("SIGKILL")
  // A worker that ends early must not leave its server running.
  process.once("exit", kill)
  const stop = async () => {
    if (!later) return void (await first.stop())
    if (later.exitCode !== null || later.signalCode !== null) return
    later.kill("SIGTERM")
    await once(later, "exit")
  }
  return {
    baseUrl: first.baseUrl,
    async restart(key) {
      await stop()
      later = key ? start(["serve", ...where], { TIDEWIRE_ADMIN_KEY: key }) : start(["dev", ...where])
      await ready(first.baseUrl)
    },
    async remove() {
      await stop()
      process.off("exit", kill)
      await first.remove()
      await rm(home, { recursive: true, force: true })
    },
  }
}

function start(args: string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const built = fileURLToPath(new URL("../../target/debug/tidewire", import.meta.url))
  return spawn(process.env.TIDEWIRE_BIN ?? built, args, {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, TIDEWIRE_TELEMETRY_LEVEL: "warn", ...env },
  })
}

async function ready(baseUrl: string): Promise<void> {
  const deadline = AbortSignal.timeout(READY_WITHIN_MS)
  while (!deadline.aborted) {
    const answer = await fetch(`${baseUrl}/readyz`, { signal: deadline }).catch(() => undefined)
    if (answer?.status === 200) return
    // Not listening yet: the only way to learn of it is to ask again.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`${baseUrl} was not ready within ${READY_WITHIN_MS} ms`)
}

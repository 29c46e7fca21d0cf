/**
 * The worker of examples/typescript-worker, at work for a group of a real server.
 */

import { afterAll, describe, expect, test, vi } from "vitest"
import { count, Dead, type Handler, type Key, type Options, work } from "../../examples/typescript-worker/worker.ts"
import { endsWell, serverForThisFile } from "./fixture.ts"

const server = await serverForThisFile()
const stop = new AbortController()
afterAll(() => stop.abort())

async function ask(method: string, path: string, body?: unknown): Promise<any> {
  const headers = { "content-type": "application/json" }
  const sent = body === undefined ? {} : { headers, body: JSON.stringify(body) }
  const response = await fetch(`${server.baseUrl}${path}`, { method, ...sent })
  const text = await response.text()
  expect(response.ok, `${method} ${path}: ${text}`).toBe(true)
  return text === "" ? undefined : JSON.parse(text)
}

const sql = (text: string) => ask("POST", "/v1/sql", { sql: text })

/** A member of the group, until the test is over. */
function member(group: string, handle: Handler, name = "one"): { leave(): Promise<void> } {
  const own = new AbortController()
  const options: Options = { url: server.baseUrl, group, member: name, stop: AbortSignal.any([own.signal, stop.signal]) }
  const ended = work(options, handle)
  return {
    async leave() {
      own.abort()
      await ended
    },
  }
}

/** Asks again until it is so: workers take their time. */
const eventually = <T>(look: () => Promise<T>) => vi.waitFor(look, { timeout: 20_000, interval: 50 })

await sql(`CREATE TABLE orders (id INTEGER PRIMARY KEY, host TEXT, customer TEXT);
  CREATE TABLE totals (host_id TEXT, user_id TEXT, events INTEGER, PRIMARY KEY (host_id, user_id))`)
await ask("POST", "/v1/watch", { table: "orders", host_column: "host", user_column: "customer" })

describe("the TypeScript worker", () => {
  test("counts every event once, with as many members as there are", async () => {
    await ask("PUT", "/v1/groups/totals", { partitions: 4, tables: ["orders"] })
    const members = ["one", "two", "three"].map((name) => member("totals", count, name))
    for (let id = 0; id < 60; id++) {
      await sql(`INSERT INTO orders VALUES (${id}, 'host-${id % 5}', 'user-${id % 2}')`)
    }
    await eventually(async () => {
      const { rows } = await sql("SELECT host_id, user_id, events FROM totals ORDER BY host_id, user_id")
      const counted = rows.map((row: any) => [row.host_id, row.user_id, row.events])
      const expected = [0, 1, 2, 3, 4].flatMap((host) => [0, 1].map((user) => [`host-${host}`, `user-${user}`, 6]))
      expect(counted).toEqual(expected)
    })
    await Promise.all(members.map((each) => each.leave()))
    expect((await ask("GET", "/v1/groups/totals")).lag_events).toBe(0)
  })

  test("sets aside what it cannot handle, and goes on with the rest", async () => {
    await ask("PUT", "/v1/groups/picky", { partitions: 1, tables: ["orders"], start: "now" })
    const seen: number[] = []
    const picky: Handler = async (key: Key) => {
      const ids = key.events.map((event) => (event.after_data as { id: number }).id)
      if (ids.includes(100)) throw new Dead("nobody can handle 100")
      seen.push(...ids)
      return []
    }
    const only = member("picky", picky)
    await sql("INSERT INTO orders VALUES (100, 'acme', 'ann'), (101, 'acme', 'bob')")
    await eventually(async () => expect((await ask("GET", "/v1/groups/picky")).lag_events).toBe(0))
    await only.leave()
    expect(seen).toContain(101)
    const { letters } = await ask("GET", "/v1/groups/picky/dead")
    expect(letters.map((letter: any) => [letter.event.after_data.id, letter.state])).toEqual([[100, "dead"]])
    expect(letters[0].error).toContain("nobody can handle 100")
  })

  test("sets aside only the transaction whose SQL cannot be run", async () => {
    await ask("PUT", "/v1/groups/strict", { partitions: 1, tables: ["orders"], start: "now", max_attempts: 2 })
    await sql("CREATE TABLE taken (customer TEXT CHECK (customer <> 'bob'))")
    for (const [id, customer] of [[200, "ann"], [201, "bob"], [202, "eve"]]) {
      await sql(`INSERT INTO orders VALUES (${id}, 'acme', '${customer}')`)
    }
    const take: Handler = async ({ user_id }) => [{ sql: "INSERT INTO taken VALUES ($1)", params: [user_id] }]
    const only = member("strict", take)
    await eventually(async () => {
      const { rows } = await sql("SELECT customer FROM taken ORDER BY customer")
      expect(rows.map((row: any) => row.customer)).toEqual(["ann", "eve"])
    })
    await only.leave()
    const { letters } = await ask("GET", "/v1/groups/strict/dead")
    expect(letters.map((letter: any) => [letter.event.user_id, letter.attempts])).toEqual([["bob", 2]])
  })

  test("ends with the reason if there is no such group", async () => {
    const options: Options = { url: server.baseUrl, group: "nobody", member: "one", stop: stop.signal }
    await expect(work(options, count)).rejects.toThrow(/no such group/)
  })
})

endsWell(server)

/**
 * Live connections as pages use them: EventSource, WebSocket and sendBeacon of a real browser.
 */

import type { Browser, Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { launch } from "./chromium.ts"
import { takePlace, type Place } from "./place.ts"

const KEY = "a-key-that-only-this-test-knows"
/** A tab that lost its server comes back within a few seconds; a loaded machine is given more. */
const WITHIN_MS = 30_000

/** What a page keeps of a live connection, where the test can see it. */
interface Noted {
  readonly offsets: string[]
  readonly payloads: unknown[]
  /** How often it was told that a subscription stands: once for each connection. */
  stood: number
  session: string
  extensions: string
}

let place: Place
let browser: Browser

beforeAll(async () => {
  place = await takePlace()
  browser = await launch()
})

afterAll(async () => {
  await browser?.close()
  await place?.remove()
})

const json = { "content-type": "application/json" }

async function request(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const init = { method, headers: { ...json, ...headers } }
  const answer = await fetch(`${place.baseUrl}${path}`, body === undefined ? init : { ...init, body: JSON.stringify(body) })
  expect(answer.ok, `${method} ${path}: ${answer.status}`).toBe(true)
  return answer
}

const create = (stream: string, headers = {}) => request("PUT", `/v1/stream/${stream}`, undefined, headers)

/** Appends messages, and returns the offset that the stream ends at. */
async function append(stream: string, messages: unknown[], headers = {}): Promise<string> {
  const answer = await request("POST", `/v1/stream/${stream}`, messages, headers)
  return answer.headers.get("stream-next-offset") ?? ""
}

/** A page of the server's own origin. It keeps what it gets in `window.noted`. */
async function open(): Promise<Page> {
  const page = await browser.newPage()
  onTestFinished(() => page.close())
  await page.goto(`${place.baseUrl}/`)
  await page.evaluate(() => {
    const noted: Noted = { offsets: [], payloads: [], stood: 0, session: "", extensions: "" }
    const note = (text: string) => {
      const message = JSON.parse(text)
      if (message.type === "subscription_created") noted.stood += 1
      if (message.type !== "event") return
      noted.offsets.push(message.offset)
      noted.payloads.push(message.payload)
    }
    Object.assign(window, { noted, note })
  })
  return page
}

declare const noted: Noted
declare const note: (text: string) => void

const look = (page: Page): Promise<Noted> => page.evaluate(() => noted)

/** Waits until the page has exactly these payloads, in this order, at offsets that rise. */
async function has(page: Page, payloads: unknown[]): Promise<void> {
  await expect.poll(async () => (await look(page)).payloads, { timeout: WITHIN_MS }).toEqual(payloads)
  const { offsets } = await look(page)
  expect(offsets).toEqual([...new Set(offsets)].sort())
}

/** Opens a session that follows a stream from its start, and an EventSource for it. */
async function listen(page: Page, stream: string): Promise<void> {
  await page.evaluate(async (streamId) => {
    const post = async (path: string, body?: unknown) => {
      const answer = await fetch(path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return answer.json()
    }
    const { sessionId } = await post("/v1/sessions")
    noted.session = sessionId
    await post("/v1/subscriptions", { sessionId, streamId, offset: "-1" })
    const source = new EventSource(`/v1/live/${sessionId}`)
    source.onmessage = (event) => note(event.data)
  }, stream)
}

/** Follows a stream from its start over a WebSocket, with a token where the server asks for one. */
async function connect(page: Page, stream: string, token?: string): Promise<void> {
  await page.evaluate(
    ({ stream, token }) => {
      const socket = new WebSocket(`${location.origin.replace("http", "ws")}/v1/ws`)
      const say = (message: unknown) => socket.send(JSON.stringify(message))
      socket.onopen = () => {
        noted.extensions = socket.extensions
        if (token) say({ type: "auth", token })
        say({ type: "subscribe", subscriptions: [{ query_id: "q", stream, offset: "-1" }] })
      }
      socket.onmessage = (event) => note(event.data)
    },
    { stream, token: token ?? "" },
  )
}

const pointer = async (session: string, headers = {}) => {
  const answer = await request("GET", `/v1/session-offsets/${session}`, undefined, headers)
  const [first] = (await answer.json()) as { lastOffset: string }[]
  return first?.lastOffset
}

describe("an EventSource", () => {
  test("gets what is there, then what is appended", async () => {
    await create("live/source")
    await append("live/source", ["before", { n: 1 }])
    const page = await open()
    await listen(page, "live/source")
    await has(page, ["before", { n: 1 }])
    await append("live/source", ["after"])
    await has(page, ["before", { n: 1 }, "after"])
  })

  test("comes back by itself when the server is restarted, and has every event once", async () => {
    await create("live/restarted")
    const page = await open()
    await listen(page, "live/restarted")
    await expect.poll(async () => (await look(page)).stood, { timeout: WITHIN_MS }).toBe(1)
    const expected: unknown[] = []
    for (const round of [0, 1, 2]) {
      for (const part of ["one", "two"]) {
        await append("live/restarted", [`${part} of ${round}`])
        expected.push(`${part} of ${round}`)
      }
      await has(page, expected)
      await place.restart()
      await append("live/restarted", [`after ${round}`])
      expected.push(`after ${round}`)
    }
    await has(page, expected)
    expect((await look(page)).stood).toBeGreaterThan(3)
  })
})

describe("a WebSocket", () => {
  test("negotiates compression and gets what is appended", async () => {
    await create("live/socket")
    const page = await open()
    await connect(page, "live/socket")
    const large = { text: "the same again and again, ".repeat(500) }
    await append("live/socket", ["small", large])
    await has(page, ["small", large])
    await append("live/socket", [null, "ünïcödé ☃"])
    await has(page, ["small", large, null, "ünïcödé ☃"])
    expect((await look(page)).extensions).toContain("permessage-deflate")
  })
})

describe("sendBeacon", () => {
  test("moves the pointer when the page is left", async () => {
    await create("live/left")
    const tail = await append("live/left", [1, 2, 3])
    const page = await open()
    await listen(page, "live/left")
    await has(page, [1, 2, 3])
    const { session } = await look(page)
    expect(await pointer(session)).not.toBe(tail)
    await page.evaluate(() => {
      addEventListener("pagehide", () => {
        const offsets = [{ streamId: "live/left", lastOffset: noted.offsets.at(-1) }]
        navigator.sendBeacon("/v1/heartbeat", JSON.stringify({ sessionId: noted.session, offsets }))
      })
    })
    await page.goto("about:blank")
    await expect.poll(() => pointer(session), { timeout: WITHIN_MS }).toBe(tail)
  })
})

describe("under tidewire serve", () => {
  const bearer = { authorization: `Bearer ${KEY}` }

  test("a page shows its token in the first message, and in the beacon's body", async () => {
    await place.restart(KEY)
    await create("live/keyed", bearer)
    const tail = await append("live/keyed", ["for those with a key"], bearer)
    const page = await open()
    await connect(page, "live/keyed", KEY)
    await has(page, ["for those with a key"])

    const opened = await request("POST", "/v1/sessions", undefined, bearer)
    const { sessionId } = (await opened.json()) as { sessionId: string }
    await request("POST", "/v1/subscriptions", { sessionId, streamId: "live/keyed", offset: "-1" }, bearer)
    const offsets = [{ streamId: "live/keyed", lastOffset: tail }]
    const beacon = JSON.stringify({ sessionId, offsets, token: KEY })
    await page.evaluate((body) => {
      addEventListener("pagehide", () => navigator.sendBeacon("/v1/heartbeat", body))
    }, beacon)
    await page.goto("about:blank")
    await expect.poll(() => pointer(sessionId, bearer), { timeout: WITHIN_MS }).toBe(tail)
  })
})
